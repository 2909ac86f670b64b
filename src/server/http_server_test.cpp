// The HTTP server over real sockets on 127.0.0.1, with handlers that show what arrived.
#include "server/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <future>
#include <thread>
#include <vector>

#include "base/error.h"
#include "server/http_client_testing.h"

namespace tagalong::server {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr std::string_view kPing = ": ping\n\n";

HttpServerOptions quick_options() {
  HttpServerOptions options;
  options.port = 0;
  options.header_limit = 4096;
  options.body_limit = 100'000;
  options.idle_timeout = 5s;
  options.header_timeout = 5s;
  options.body_timeout = 5s;
  options.linger_timeout = 1s;
  options.drain_timeout = 5s;
  return options;
}

// A server whose handler answers /echo with what it got, streams on /stream and keeps /hold until the test
// ends it.
class HttpServerTest : public testing::Test {
 protected:
  void start(const HttpServerOptions& options = quick_options()) {
    server_ = std::make_unique<HttpServer>(options);
    thread_ = std::thread([this] {
      outcome_ = server_->run([this](ExchangePtr exchange) { handle(std::move(exchange)); });
      ended_ = true;
    });
  }
  void TearDown() override {
    if (!thread_.joinable()) return;
    server_->stop_now();
    thread_.join();
  }

  void handle(ExchangePtr exchange) {
    const HttpRequest& request = exchange->request();
    ++requests_;
    if (server_->draining()) return exchange->respond({.status = 503, .body = "draining"});
    if (request.path == "/hold") {
      exchange->on_close([this](CloseReason reason) {
        (reason == CloseReason::kClientGone ? gone_ : cut_off_)++;
        held_.clear();
      });
      held_.push_back(std::move(exchange));
    } else if (request.path == "/stream") {
      exchange->on_close([this](CloseReason reason) {
        (reason == CloseReason::kClientGone ? gone_ : cut_off_)++;
        held_.clear();
      });
      exchange->begin_stream({.headers = {{"Content-Type", "text/event-stream"}}}, std::string(kPing));
      exchange->write("data: first\n\n");
      held_.push_back(std::move(exchange));
    } else {
      exchange->respond(
          {.body = request.method + " " + request.path + "?" + request.query + " " + request.body});
    }
  }

  // Runs on the server's thread and waits for it.
  void on_server(const std::function<void()>& task) {
    std::promise<void> done;
    server_->post([&] {
      task();
      done.set_value();
    });
    done.get_future().wait();
  }
  template <typename F>
  static bool soon(F condition, std::chrono::milliseconds limit = 5s) {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(2ms);
    }
    return true;
  }
  void join() { thread_.join(); }
  std::uint16_t port() const { return server_->port(); }

  std::unique_ptr<HttpServer> server_;
  std::thread thread_;
  ServerOutcome outcome_;
  std::atomic<bool> ended_{false};
  std::atomic<int> requests_{0};
  std::atomic<int> gone_{0};
  std::atomic<int> cut_off_{0};
  std::vector<ExchangePtr> held_;  // server's thread
};

std::string get(std::string_view path, std::string_view more = "") {
  return fmt::format("GET {} HTTP/1.1\r\nHost: x\r\n{}\r\n", path, more);
}
std::string post(std::string_view path, std::string_view body, std::string_view more = "") {
  return fmt::format("POST {} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n{}\r\n{}", path, body.size(), more,
                     body);
}

TEST_F(HttpServerTest, AnswersAndKeepsTheConnection) {
  start();
  RawClient client(port());
  for (int i = 0; i < 3; ++i) {
    client.send(post("/echo?a=b", "body"));
    const Answer answer = client.answer();
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, "POST /echo?a=b body");
    EXPECT_EQ(answer.header("Connection"), "");
    EXPECT_THAT(answer.header("Date"), HasSubstr("GMT"));
  }
}

TEST_F(HttpServerTest, DecodesThePathAndTakesTheAbsoluteForm) {
  start();
  RawClient client(port());
  client.send(get("/a%2Fb%20c"));
  EXPECT_EQ(client.answer().body, "GET /a/b c? ");
  client.send(get("http://x/echo?q"));
  EXPECT_EQ(client.answer().body, "GET /echo?q ");
}

TEST_F(HttpServerTest, AnswersPipelinedRequestsInOrder) {
  start();
  RawClient client(port());
  std::string all;
  for (int i = 0; i < 50; ++i) all += i % 2 ? get(fmt::format("/{}", i)) : post(fmt::format("/{}", i), "xyz");
  client.send(all);
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(client.answer().body, i % 2 ? fmt::format("GET /{}? ", i) : fmt::format("POST /{}? xyz", i));
  }
}

TEST_F(HttpServerTest, ReadsARequestByteByByte) {
  start();
  RawClient client(port());
  for (const char c : post("/echo", "0123456789")) {
    client.send(std::string_view(&c, 1));
  }
  EXPECT_EQ(client.answer().body, "POST /echo? 0123456789");
}

TEST_F(HttpServerTest, ReadsAChunkedBodyAndIgnoresItsTrailers) {
  start();
  RawClient client(port());
  client.send("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
  client.send("5;name=value\r\nhello\r\n");
  std::this_thread::sleep_for(20ms);
  client.send("6\r\n world\r\n0\r\nX-Request-Id: trailer\r\n\r\n");
  const Answer answer = client.answer();
  EXPECT_EQ(answer.body, "POST /echo? hello world");
  EXPECT_NE(answer.header("X-Request-Id"), "trailer");
  client.send(get("/next"));
  EXPECT_EQ(client.answer().body, "GET /next? ") << "the body's end was found";
}

TEST_F(HttpServerTest, MalformedRequestsGetAnErrorBodyAndAClosedConnection) {
  start();
  const std::pair<std::string, int> kBad[] = {
      {"nonsense\r\n\r\n", 400},
      {"GET  / HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505},
      {"GET / HTTP/1.1\r\n\r\n", 400},  // no Host
      {"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost x\r\n\r\n", 400},
      {"GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"GET nowhere HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"GET * HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"\x16\x03\x01\x02\r\n\r\n", 400},  // TLS spoken to a plain port
      {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5x\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501},
      {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501},
      {"POST / HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx", 415},
      {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n-2\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcXY\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nExpect: a-miracle\r\n\r\nx", 417},
  };
  for (const auto& [text, status] : kBad) {
    RawClient client(port());
    client.send(text);
    const Answer answer = client.answer();
    EXPECT_EQ(answer.status, status) << text;
    EXPECT_THAT(answer.body, HasSubstr(R"("type":"invalid_request_error")")) << text;
    EXPECT_EQ(answer.header("Connection"), "close") << text;
    EXPECT_TRUE(client.ended()) << text;
  }
  EXPECT_EQ(requests_, 0);
  RawClient client(port());
  client.send(get("/echo"));
  EXPECT_EQ(client.answer().status, 200) << "the server still serves";
}

TEST_F(HttpServerTest, HeadersAreLimitedLineByLineAndInAll) {
  start();
  std::string many = "GET / HTTP/1.1\r\nHost: x\r\n";
  for (int i = 0; i < 1000; ++i) many += fmt::format("H{}: x\r\n", i);
  for (const std::string& text :
       {"GET / HTTP/1.1\r\nHost: x\r\nLong: " + std::string(5000, 'x') + "\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nEndless: " + std::string(100'000, 'x'),
        "GET /" + std::string(5000, 'x') + " HTTP/1.1\r\nHost: x\r\n\r\n", many + "\r\n", many}) {
    RawClient client(port());
    client.send(text);
    EXPECT_EQ(client.answer().status, 431) << text.substr(0, 40) << "...";
  }
  EXPECT_EQ(requests_, 0);
}

TEST_F(HttpServerTest, BodiesAreLimitedAnnouncedOrNot) {
  start();
  {
    RawClient client(port());
    client.send("POST / HTTP/1.1\r\nHost: x\r\nX-Request-Id: mine\r\nContent-Length: 100001\r\n\r\n");
    const Answer answer = client.answer();
    EXPECT_EQ(answer.status, 413) << "before any of the body was sent";
    EXPECT_EQ(answer.header("X-Request-Id"), "mine");
  }
  {
    RawClient client(port());
    client.send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 3; ++i) client.send(fmt::format("{:x}\r\n{}\r\n", 40'000, std::string(40'000, 'x')));
    EXPECT_EQ(client.answer().status, 413);
  }
  {
    RawClient client(port());
    client.send(post("/echo", std::string(100'000, 'x')));
    EXPECT_EQ(client.answer().body.size(), 100'000 + std::string("POST /echo? ").size())
        << "the limit itself is allowed";
  }
  {
    RawClient client(port());
    client.send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5;" +
                std::string(20'000, 'x'));
    EXPECT_EQ(client.answer().status, 400) << "an endless chunk extension";
  }
}

TEST_F(HttpServerTest, AClientThatSendsItsWholeTooLongBodyStillGetsTheAnswer) {
  start();
  RawClient client(port());
  client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 8000000\r\n\r\n");
  EXPECT_TRUE(client.send(std::string(8'000'000, 'x')));
  EXPECT_EQ(client.answer().status, 413);
}

TEST_F(HttpServerTest, ContinueIsSentWhenAskedForAndAllowed) {
  start();
  RawClient client(port());
  client.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
  ASSERT_TRUE(client.wait_for("HTTP/1.1 100 Continue\r\n\r\n"));
  client.send("body");
  EXPECT_EQ(client.answer().body, "POST /echo? body");
  client.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 999999\r\nExpect: 100-continue\r\n\r\n");
  ASSERT_TRUE(client.wait_for("\r\n\r\n"));
  EXPECT_THAT(client.unread(), testing::StartsWith("HTTP/1.1 413"));
}

TEST_F(HttpServerTest, AHalfClosedClientGetsAllItsAnswers) {
  start();
  RawClient client(port());
  client.send(get("/1") + get("/2") + get("/hold"));
  client.half_close();
  EXPECT_EQ(client.answer().body, "GET /1? ");
  EXPECT_EQ(client.answer().body, "GET /2? ");
  ASSERT_TRUE(soon([&] { return requests_ == 3; }));
  std::this_thread::sleep_for(100ms);
  on_server([&] {
    ASSERT_EQ(held_.size(), 1U) << "taken for gone";
    held_[0]->respond({.body = "late"});
  });
  EXPECT_EQ(client.answer().body, "late");
  EXPECT_TRUE(client.ended());
  EXPECT_EQ(gone_, 0);
}

TEST_F(HttpServerTest, ARequestCutOffByItsSenderGets400) {
  start();
  for (const char* text : {"GET / HT", "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc"}) {
    RawClient client(port());
    client.send(text);
    client.half_close();
    EXPECT_EQ(client.answer().status, 400) << text;
    EXPECT_TRUE(client.ended());
  }
}

TEST_F(HttpServerTest, AClientThatGoesAwayIsNoticedWhileItWaits) {
  start();
  for (const char* path : {"/hold", "/stream"}) {
    gone_ = 0;
    const int before = requests_;
    RawClient client(port());
    client.send(get(path));
    ASSERT_TRUE(soon([&] { return requests_ == before + 1; }));
    if (path == std::string_view("/stream")) {
      ASSERT_TRUE(client.wait_for("first"));
    }
    const auto begin = std::chrono::steady_clock::now();
    client.close();
    EXPECT_TRUE(soon([&] { return gone_ == 1; })) << path;
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 1s) << path;
  }
}

TEST_F(HttpServerTest, AStreamIsChunkedPingedAndEnded) {
  HttpServerOptions options = quick_options();
  options.ping_interval = 50ms;
  start(options);
  RawClient client(port());
  client.send(get("/stream"));
  ASSERT_TRUE(client.wait_for(": ping"));
  on_server([&] {
    held_.at(0)->write("data: last\n\n");
    held_.at(0)->end();
    held_.at(0)->write("never seen");
  });
  const Answer answer = client.answer();
  EXPECT_TRUE(answer.complete);
  EXPECT_THAT(answer.body, testing::StartsWith("data: first\n\n: ping\n\n"));
  EXPECT_THAT(answer.body, testing::EndsWith("data: last\n\n"));
  client.send(get("/echo"));
  EXPECT_EQ(client.answer().body, "GET /echo? ") << "the connection is kept";
}

TEST_F(HttpServerTest, Http10GetsAStreamWithoutChunks) {
  start();
  RawClient client(port());
  client.send("GET /stream HTTP/1.0\r\n\r\n");
  ASSERT_TRUE(client.wait_for("first"));
  on_server([&] { held_.at(0)->end(); });
  const Answer answer = client.answer();
  EXPECT_EQ(answer.body, "data: first\n\n");
  EXPECT_EQ(answer.header("Transfer-Encoding"), "");
  EXPECT_TRUE(answer.complete);
}

TEST_F(HttpServerTest, HeadHasTheLengthButNoBody) {
  start();
  RawClient client(port());
  client.send("HEAD /echo HTTP/1.1\r\nHost: x\r\n\r\n" + get("/next"));
  const Answer answer = client.answer(true);
  EXPECT_EQ(answer.header("Content-Length"), std::to_string(std::string("HEAD /echo? ").size()));
  EXPECT_EQ(client.answer().body, "GET /next? ");
}

TEST_F(HttpServerTest, TheRequestIdIsEchoedIfItIsPlain) {
  start();
  RawClient client(port());
  client.send(get("/echo", "X-Request-Id: abc-123\r\n"));
  EXPECT_EQ(client.answer().header("X-Request-Id"), "abc-123");
  client.send(get("/echo", "X-Request-Id: a b\r\n"));
  EXPECT_EQ(client.answer().header("X-Request-Id").size(), 32U);
  client.send(get("/echo", fmt::format("X-Request-Id: {}\r\n", std::string(200, 'x'))));
  EXPECT_EQ(client.answer().header("X-Request-Id").size(), 32U);
}

TEST_F(HttpServerTest, SlowRequestsTimeOut) {
  HttpServerOptions options = quick_options();
  options.idle_timeout = options.header_timeout = options.body_timeout = 100ms;
  start(options);
  RawClient headers(port());
  headers.send("GET / HTTP/1.1\r\nHo");
  EXPECT_EQ(headers.answer().status, 408);
  RawClient body(port());
  body.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n");
  for (int i = 0; i < 5; ++i) {  // drop by drop does not help
    body.send("x");
    std::this_thread::sleep_for(30ms);
  }
  EXPECT_EQ(body.answer().status, 408);
  RawClient idle(port());
  EXPECT_TRUE(idle.ended());
  EXPECT_EQ(idle.unread(), "") << "an idle connection is closed without a word";
}

TEST_F(HttpServerTest, AClientThatDoesNotReadIsClosed) {
  HttpServerOptions options = quick_options();
  options.write_timeout = 200ms;
  start(options);
  RawClient client(port());
  client.send(get("/stream"));
  ASSERT_TRUE(client.wait_for("first"));
  on_server([&] { held_.at(0)->write(std::string(50'000'000, 'x')); });
  bool ready = true;
  on_server([&] { ready = held_.empty() || held_[0]->ready(); });
  EXPECT_FALSE(ready);
  EXPECT_TRUE(soon([&] { return gone_ == 1; }));
}

TEST_F(HttpServerTest, OnReadySaysWhenTheClientHasCaughtUp) {
  start();
  RawClient client(port());
  client.send(get("/stream"));
  ASSERT_TRUE(client.wait_for("first"));
  std::atomic<int> ready{0};
  on_server([&] {
    held_.at(0)->on_ready([&] { ++ready; });
    held_.at(0)->write(std::string(20'000'000, 'x'));
  });
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(ready, 0) << "the client has not read anything yet";
  for (int i = 0; i < 100'000 && ready == 0 && client.receive(); ++i) {
  }
  EXPECT_TRUE(soon([&] { return ready == 1; }));
}

TEST_F(HttpServerTest, ADroppedExchangeClosesItsConnection) {
  start();
  RawClient client(port());
  client.send(get("/hold"));
  ASSERT_TRUE(soon([&] { return requests_ == 1; }));
  on_server([&] { held_.clear(); });
  EXPECT_TRUE(client.ended());
}

TEST_F(HttpServerTest, TooManyConnectionsAreRefused) {
  HttpServerOptions options = quick_options();
  options.max_connections = 2;
  start(options);
  RawClient first(port());
  RawClient second(port());
  first.send(get("/echo"));
  second.send(get("/echo"));
  EXPECT_EQ(first.answer().status, 200);
  EXPECT_EQ(second.answer().status, 200);
  RawClient third(port());
  third.send(get("/echo"));
  const Answer refused = third.answer();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.header("Retry-After"), "1");
  EXPECT_TRUE(third.ended());
  first.close();
  EXPECT_TRUE(soon([&] {
    RawClient fourth(port());
    fourth.send(get("/echo"));
    return fourth.answer().status == 200;
  }));
}

TEST_F(HttpServerTest, ManyClientsAtOnce) {
  start();
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      RawClient client(port());
      for (int i = 0; i < 50; ++i) {
        client.send(post(fmt::format("/{}/{}", t, i), std::string(1000, 'x')));
        if (client.answer().body == fmt::format("POST /{}/{}? {}", t, i, std::string(1000, 'x'))) ++right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 400);
}

TEST_F(HttpServerTest, ShuttingDownDrainsRefusesAndEnds) {
  start();
  RawClient idle(port());
  idle.send(get("/echo"));
  EXPECT_EQ(idle.answer().status, 200);
  RawClient held(port());
  held.send(get("/hold"));
  RawClient stream(port());
  stream.send(get("/stream"));
  ASSERT_TRUE(stream.wait_for("first"));
  ASSERT_TRUE(soon([&] { return requests_ == 3; }));
  server_->shut_down();
  EXPECT_TRUE(idle.ended());
  RawClient late(port());
  late.send(get("/echo"));
  const Answer refused = late.answer();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.header("Connection"), "close");
  EXPECT_FALSE(ended_);
  on_server([&] {
    for (const ExchangePtr& exchange : held_) {
      exchange->streaming() ? exchange->end() : exchange->respond({.body = "done"});
    }
  });
  EXPECT_EQ(held.answer().body, "done");
  EXPECT_TRUE(stream.answer().complete);
  join();
  EXPECT_TRUE(outcome_.drained);
  EXPECT_EQ(gone_ + cut_off_, 0);
  EXPECT_FALSE(RawClient(port()).connected());
}

TEST_F(HttpServerTest, WhatDoesNotDrainInTimeIsToldAndCutOff) {
  HttpServerOptions options = quick_options();
  options.drain_timeout = 100ms;
  start(options);
  RawClient client(port());
  client.send(get("/hold"));
  ASSERT_TRUE(soon([&] { return requests_ == 1; }));
  server_->shut_down();
  join();
  EXPECT_FALSE(outcome_.drained);
  EXPECT_EQ(cut_off_, 1);
}

TEST_F(HttpServerTest, TheFirstSignalDrainsAndTheSecondStops) {
  HttpServerOptions options = quick_options();
  options.handle_signals = true;
  options.drain_timeout = 60s;
  start(options);
  RawClient client(port());
  client.send(get("/hold"));
  ASSERT_TRUE(soon([&] { return requests_ == 1; }));
  std::raise(SIGTERM);
  ASSERT_TRUE(soon([&] { return server_->draining(); }));
  std::this_thread::sleep_for(50ms);
  EXPECT_FALSE(ended_);
  const auto begin = std::chrono::steady_clock::now();
  std::raise(SIGTERM);
  join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 2s);
  EXPECT_FALSE(outcome_.drained);
  EXPECT_EQ(outcome_.signal, SIGTERM);
  EXPECT_EQ(gone_, 1) << "whoever held the exchange was told";
}

TEST(HttpServer, AnAddressThatCannotBeBoundIsNamed) {
  HttpServerOptions options;
  options.port = 0;
  HttpServer first(options);
  options.port = first.port();
  try {
    HttpServer second(options);
    FAIL() << "bound twice";
  } catch (const base::InputError& e) {
    EXPECT_THAT(e.what(), HasSubstr(fmt::format("127.0.0.1:{}", first.port())));
  }
  options.host = "no such host.invalid";
  EXPECT_THROW(HttpServer{options}, base::InputError);
}

}  // namespace
}  // namespace tagalong::server
