// The whole way: OpenAI requests over real sockets, the real engine, and the bundled model.
#include "server/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "engine/engine_loop.h"
#include "kernels/select.h"
#include "models/model.h"
#include "server/http_client_testing.h"

namespace tagalong::server {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::HasSubstr;

const std::string kModel = std::string(TAGALONG_SOURCE_DIR) + "/models/storyteller";
const std::string kPrompt = "Once upon a time there was a fox who";
constexpr int kEndOfText = 0;

// The model, loaded once for all tests.
struct Loaded {
  base::ThreadPool pool{1};
  std::unique_ptr<models::Model> model = models::load_model(
      checkpoint::Checkpoint::open(kModel), {.kernels = kernels::select_kernels("auto"), .pool = pool});
  tokenizer::Tokenizer tokenizer = tokenizer::Tokenizer::load(kModel);
};
Loaded& loaded() {
  static Loaded kLoaded;
  return kLoaded;
}

struct Setup {
  int max_sequences = 4;
  int queue = 4;
  std::string policy = "exact";
  ApiKeys keys = {};
  std::optional<tokenizer::ChatTemplate> chat_template = tokenizer::ChatTemplate::load(kModel);
  std::chrono::milliseconds drain = 30s;
};

// A server from listener to engine; ends when it goes out of scope.
class Running {
 public:
  explicit Running(Setup setup = {}) {
    HttpServerOptions http;
    http.port = 0;
    http.drain_timeout = setup.drain;
    server_ = std::make_unique<HttpServer>(http);
    engine_ = std::make_unique<engine::Engine>(
        *loaded().model, loaded().pool,
        engine::EngineOptions{.max_sequences = setup.max_sequences,
                              .policy = routing::parse_policy(setup.policy)});
    ServiceOptions options;
    options.model_name = "storyteller";
    options.version = "1.2.3";
    options.keys = std::move(setup.keys);
    options.queue = setup.queue;
    options.sampling.temperature = 0;
    options.stop_ids = {kEndOfText};
    service_ = std::make_unique<Service>(*server_, *engine_, loaded().tokenizer,
                                         std::move(setup.chat_template), options);
    loop_ = std::make_unique<engine::EngineLoop>(*engine_);
    thread_ = std::thread([this] {
      outcome_ = server_->run([this](const ExchangePtr& exchange) { service_->handle(exchange); });
    });
  }
  ~Running() {
    if (thread_.joinable()) {
      server_->stop_now();
      thread_.join();
    }
    loop_->stop();
  }

  std::uint16_t port() const { return server_->port(); }
  HttpServer& server() { return *server_; }
  engine::EngineStats stats() const { return engine_->stats(); }
  // Sequences the service still answers for.
  int active() {
    std::promise<int> value;
    server_->post([&] { value.set_value(service_->active()); });
    return value.get_future().get();
  }
  ServerOutcome join() {
    thread_.join();
    return outcome_;
  }

  Answer send(const std::string& text) const {
    RawClient client(port());
    client.send(text);
    return client.answer();
  }
  Answer get(const std::string& path, const std::string& headers = "") const {
    return send(fmt::format("GET {} HTTP/1.1\r\nHost: x\r\n{}\r\n", path, headers));
  }
  Answer post(const std::string& path, const json& body, const std::string& headers = "") const {
    return send(request(path, body, headers));
  }
  static std::string request(const std::string& path, const json& body, const std::string& headers = "") {
    const std::string text = body.is_string() ? body.get<std::string>() : body.dump();
    return fmt::format(
        "POST {} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{}\r\n{}",
        path, text.size(), headers, text);
  }
  Answer complete(const json& body) const { return post("/v1/completions", body); }
  Answer chat(const json& body) const { return post("/v1/chat/completions", body); }

  // The text of one completion, which must succeed.
  std::string text(json body) const {
    const Answer answer = complete(body);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.status == 200 ? json::parse(answer.body)["choices"][0]["text"].get<std::string>() : "";
  }

 private:
  std::unique_ptr<HttpServer> server_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<engine::EngineLoop> loop_;
  std::thread thread_;
  ServerOutcome outcome_;
};

// The JSON of a stream's events; "[DONE]" is the last of a whole one and left out here.
struct Events {
  std::vector<json> all;
  bool done = false;

  explicit Events(const Answer& answer) {
    std::string_view rest = answer.body;
    while (!rest.empty()) {
      const std::size_t end = rest.find("\n\n");
      const std::string_view event = rest.substr(0, end);
      rest.remove_prefix(std::min(rest.size(), end + 2));
      EXPECT_FALSE(done) << "an event after [DONE]";
      if (event.starts_with(':')) continue;
      EXPECT_TRUE(event.starts_with("data: ")) << event;
      if (event == "data: [DONE]") {
        done = true;
      } else {
        all.push_back(json::parse(event.substr(6)));
      }
    }
  }

  // What a client puts together for one choice.
  std::string text(int choice = 0) const {
    std::string text;
    for (const json& event : all) {
      for (const json& c : event["choices"]) {
        if (c["index"] != choice) continue;
        if (c.contains("delta")) {
          text += c["delta"].value("content", "");
        } else {
          text += c["text"].get<std::string>();
        }
      }
    }
    return text;
  }
  std::vector<std::string> finishes(int choice = 0) const {
    std::vector<std::string> reasons;
    for (const json& event : all) {
      for (const json& c : event["choices"]) {
        if (c["index"] == choice && !c["finish_reason"].is_null()) reasons.push_back(c["finish_reason"]);
      }
    }
    return reasons;
  }
};

template <typename F>
bool soon(F condition, std::chrono::milliseconds limit = 10s) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(2ms);
  }
  return true;
}

json long_request(const json& more = json::object()) {
  json body{{"prompt", kPrompt}, {"max_tokens", 480}, {"ignore_eos", true}};
  body.update(more);
  return body;
}

TEST(Service, TellsItsModels) {
  const Running running;
  const Answer list = running.get("/v1/models");
  EXPECT_EQ(list.status, 200);
  const json model = json::parse(list.body)["data"].at(0);
  EXPECT_EQ(model["id"], "storyteller");
  EXPECT_EQ(model["object"], "model");
  EXPECT_EQ(json::parse(running.get("/v1/models/storyteller").body), model);
  const Answer missing = running.get("/v1/models/gpt-9");
  EXPECT_EQ(missing.status, 404);
  EXPECT_EQ(json::parse(missing.body)["error"]["code"], "model_not_found");
}

TEST(Service, HasHealthMethodsAndUnknownRoutes) {
  const Running running;
  EXPECT_EQ(running.get("/health").status, 200);
  EXPECT_EQ(running.get("/ready").status, 200);
  EXPECT_EQ(running.get("/nowhere").status, 404);
  const Answer wrong = running.get("/v1/completions");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.header("Allow"), "POST, OPTIONS");
  const Answer options = running.send("OPTIONS /v1/models HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(options.status, 204);
  EXPECT_EQ(options.header("Allow"), "GET, HEAD, OPTIONS");
  EXPECT_EQ(running.send("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n").status, 204);
  RawClient client(running.port());
  client.send("HEAD /v1/models HTTP/1.1\r\nHost: x\r\n\r\nGET /health HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client.answer(true).status, 200);
  EXPECT_EQ(client.answer().body, R"({"status":"ok"})");
}

TEST(Service, BadBodiesAreAnsweredAndNamed) {
  const Running running;
  const auto error = [&](const json& body) {
    const Answer answer = running.complete(body);
    EXPECT_EQ(answer.status, 400) << body;
    EXPECT_EQ(answer.header("Content-Type"), "application/json");
    return json::parse(answer.body)["error"];
  };
  EXPECT_EQ(error("")["code"], "invalid_json");
  EXPECT_EQ(error("{\"prompt\": ")["code"], "invalid_json");
  EXPECT_EQ(error({{"prompt", "p"}, {"temperature", "hot"}})["param"], "temperature");
  EXPECT_EQ(error({{"prompt", ""}})["param"], "prompt");
  EXPECT_EQ(error({{"prompt", {{1}, json::array()}}})["param"], "prompt");
  EXPECT_EQ(error({{"prompt", "p"}, {"n", 9}})["param"], "n");
  EXPECT_EQ(running.complete({{"prompt", "p"}, {"model", "other"}}).status, 404);
  EXPECT_EQ(running.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}").status,
            415);
  EXPECT_EQ(running.text({{"prompt", kPrompt}, {"model", "storyteller"}, {"max_tokens", 1}}).empty(), false)
      << "and the server still works";
}

TEST(Service, CompletesAPrompt) {
  const Running running;
  const Answer answer = running.complete({{"prompt", kPrompt}, {"max_tokens", 12}, {"ignore_eos", true}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.header("X-Tagalong-Routing"), "exact");
  const json body = json::parse(answer.body);
  EXPECT_EQ(body["object"], "text_completion");
  EXPECT_EQ(body["model"], "storyteller");
  EXPECT_EQ(body["system_fingerprint"], "tagalong-1.2.3-exact");
  EXPECT_TRUE(body["id"].get<std::string>().starts_with("cmpl-"));
  EXPECT_EQ(body["choices"][0]["finish_reason"], "length");
  EXPECT_FALSE(body["choices"][0]["text"].get<std::string>().empty());
  const int prompt_tokens = static_cast<int>(loaded().tokenizer.encode(kPrompt).size());
  EXPECT_EQ(body["usage"]["prompt_tokens"], prompt_tokens);
  EXPECT_EQ(body["usage"]["completion_tokens"], 12);
  EXPECT_EQ(body["usage"]["total_tokens"], prompt_tokens + 12);
}

TEST(Service, AStreamSaysTheSameAsTheWhole) {
  const Running running;
  json request{{"prompt", kPrompt}, {"max_tokens", 40}, {"ignore_eos", true}};
  const std::string whole = running.text(request);
  request["stream"] = true;
  request["stream_options"] = {{"include_usage", true}};
  const Answer answer = running.complete(request);
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.complete);
  EXPECT_THAT(answer.header("Content-Type"), HasSubstr("text/event-stream"));
  EXPECT_EQ(answer.header("X-Tagalong-Routing"), "exact");
  const Events events(answer);
  EXPECT_TRUE(events.done);
  EXPECT_EQ(events.text(), whole);
  EXPECT_EQ(events.finishes(), std::vector<std::string>{"length"});
  EXPECT_GT(events.all.size(), 3U);
  for (const json& event : events.all) EXPECT_EQ(event["id"], events.all[0]["id"]);
  EXPECT_EQ(events.all.back()["choices"], json::array());
  EXPECT_EQ(events.all.back()["usage"]["completion_tokens"], 40);
  EXPECT_EQ(events.all.front()["usage"], nullptr);
}

TEST(Service, ChatsWholeAndStreamed) {
  const Running running;
  json request{
      {"messages", {{{"role", "user"}, {"content", kPrompt}}}}, {"max_tokens", 20}, {"ignore_eos", true}};
  const Answer whole = running.chat(request);
  ASSERT_EQ(whole.status, 200) << whole.body;
  const json body = json::parse(whole.body);
  EXPECT_EQ(body["object"], "chat.completion");
  EXPECT_EQ(body["choices"][0]["message"]["role"], "assistant");
  const std::string text = body["choices"][0]["message"]["content"];
  EXPECT_FALSE(text.empty());

  request["stream"] = true;
  const Events events(running.chat(request));
  EXPECT_TRUE(events.done);
  EXPECT_EQ(events.all.at(0)["object"], "chat.completion.chunk");
  EXPECT_EQ(events.all.at(0)["choices"][0]["delta"]["role"], "assistant");
  EXPECT_EQ(events.text(), text);
  EXPECT_EQ(events.finishes(), std::vector<std::string>{"length"});
  for (std::size_t i = 1; i < events.all.size(); ++i) {
    EXPECT_FALSE(events.all[i]["choices"][0]["delta"].contains("role"))
        << "only the first chunk has the role";
    EXPECT_FALSE(events.all[i].contains("usage")) << "nobody asked for it";
  }
}

// The text of a control token in a message, or in a variable of the request, must not become the token.
TEST(Service, ControlTokensThatAUserTypedStayText) {
  const std::string typed = "a<|endoftext|>b";
  const auto prompt_tokens = [&](const Running& running, json body) {
    body["max_tokens"] = 1;
    const Answer answer = running.chat(body);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return json::parse(answer.body)["usage"]["prompt_tokens"].get<std::size_t>();
  };
  const json body = {{"messages", {{{"role", "user"}, {"content", typed}}}}};
  const std::size_t as_text = loaded().tokenizer.encode(typed, {.match_special = false}).size();
  ASSERT_GT(as_text, loaded().tokenizer.encode(typed).size());
  EXPECT_EQ(prompt_tokens(Running(), body), as_text);

  const auto chat_template = tokenizer::ChatTemplate::parse("{{ eos_token }}{{ messages[0].content }}",
                                                            {{"eos_token", "<|endoftext|>"}});
  const Running with_token({.chat_template = chat_template});
  EXPECT_EQ(prompt_tokens(with_token, body), 1 + as_text);
  json with_variable = body;
  with_variable["chat_template_kwargs"] = {{"eos_token", typed}};
  EXPECT_EQ(prompt_tokens(with_token, with_variable),
            loaded().tokenizer.encode(typed + typed, {.match_special = false}).size());
}

TEST(Service, AModelWithoutATemplateRefusesChats) {
  const Running running({.chat_template = std::nullopt});
  const Answer answer = running.chat({{"messages", {{{"role", "user"}, {"content", "hi"}}}}});
  EXPECT_EQ(answer.status, 400);
  EXPECT_THAT(answer.body, HasSubstr("template"));
}

TEST(Service, AStopStringEndsTheTextBeforeIt) {
  const Running running;
  json request{{"prompt", kPrompt}, {"max_tokens", 60}, {"ignore_eos", true}};
  const std::string whole = running.text(request);
  ASSERT_GT(whole.size(), 60U);
  const std::string stop = whole.substr(31, 17);  // begins and ends within tokens, and spans several
  const std::string expected = whole.substr(0, whole.find(stop));
  request["stop"] = {"never to be found", stop};
  const json body = json::parse(running.complete(request).body);
  EXPECT_EQ(body["choices"][0]["text"], expected);
  EXPECT_EQ(body["choices"][0]["finish_reason"], "stop");
  EXPECT_LT(body["usage"]["completion_tokens"], 60);
  request["stream"] = true;
  const Events events(running.complete(request));
  EXPECT_EQ(events.text(), expected);
  EXPECT_EQ(events.finishes(), std::vector<std::string>{"stop"});
}

TEST(Service, AStopTokenEndsTheTextAndIsNotPartOfIt) {
  const Running running;
  const json request{{"prompt", kPrompt}, {"max_tokens", 30}, {"ignore_eos", true}};
  const std::string whole = running.text(request);
  const auto ids = loaded().tokenizer.encode(kPrompt + whole);
  const auto prompt = loaded().tokenizer.encode(kPrompt);
  json stopping = request;
  stopping["stop_token_ids"] = {ids.at(prompt.size() + 5)};
  const json body = json::parse(running.complete(stopping).body);
  EXPECT_EQ(body["choices"][0]["finish_reason"], "stop");
  const std::string text = body["choices"][0]["text"];
  EXPECT_LT(text.size(), whole.size());
  EXPECT_TRUE(whole.starts_with(text));
}

TEST(Service, ManyPromptsAndChoicesComeInOrder) {
  const Running running;
  const auto ids = loaded().tokenizer.encode(kPrompt);
  const std::string alone = running.text({{"prompt", kPrompt}, {"max_tokens", 8}, {"ignore_eos", true}});
  const json body =
      json::parse(running
                      .complete({{"prompt", {ids, ids, loaded().tokenizer.encode("The captain")}},
                                 {"max_tokens", 8},
                                 {"n", 2},
                                 {"ignore_eos", true}})
                      .body);
  ASSERT_EQ(body["choices"].size(), 6U);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(body["choices"][i]["index"], i);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(body["choices"][i]["text"], alone);
  EXPECT_NE(body["choices"][4]["text"], alone);
  EXPECT_EQ(body["usage"]["completion_tokens"], 48);
}

TEST(Service, ASeedFixesTheTextAloneAndInCompany) {
  const Running running;
  const json request{
      {"prompt", kPrompt}, {"max_tokens", 24}, {"temperature", 1}, {"seed", 42}, {"ignore_eos", true}};
  const std::string alone = running.text(request);
  EXPECT_EQ(running.text(request), alone);
  json other = request;
  other["seed"] = 43;
  EXPECT_NE(running.text(other), alone);
  json twice = request;
  twice["n"] = 2;
  const json body = json::parse(running.complete(twice).body);
  EXPECT_EQ(body["choices"][0]["text"], alone);
  EXPECT_NE(body["choices"][1]["text"], alone);

  std::atomic<int> same{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&, i] {
      json mine = request;
      if (i % 2) mine["seed"] = 100 + i;
      if (running.text(mine) == alone) ++same;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(same, 3);
}

TEST(Service, EchoPutsThePromptBeforeTheAnswer) {
  const Running running;
  json request{{"prompt", kPrompt}, {"max_tokens", 5}, {"ignore_eos", true}};
  const std::string text = running.text(request);
  request["echo"] = true;
  EXPECT_EQ(running.text(request), kPrompt + text);
  request["max_tokens"] = 0;
  const json body = json::parse(running.complete(request).body);
  EXPECT_EQ(body["choices"][0]["text"], kPrompt);
  EXPECT_EQ(body["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(body["usage"]["completion_tokens"], 0);
  request["stream"] = true;
  EXPECT_EQ(Events(running.complete(request)).text(), kPrompt);
}

TEST(Service, LogprobsLineUpWithTheText) {
  const Running running;
  json request{{"prompt", kPrompt}, {"max_tokens", 10}, {"ignore_eos", true}, {"logprobs", 3}};
  const json choice = json::parse(running.complete(request).body)["choices"][0];
  const json& logprobs = choice["logprobs"];
  ASSERT_EQ(logprobs["tokens"].size(), 10U);
  ASSERT_EQ(logprobs["token_logprobs"].size(), 10U);
  std::string text;
  for (std::size_t i = 0; i < 10; ++i) {
    text += logprobs["tokens"][i].get<std::string>();
    EXPECT_EQ(logprobs["top_logprobs"][i].size(), 3U);
    double best = -1e9;
    for (const auto& [token, logprob] : logprobs["top_logprobs"][i].items())
      best = std::max(best, logprob.get<double>());
    EXPECT_EQ(logprobs["token_logprobs"][i].get<double>(), best)
        << "greedy, and the same number in both places";
    EXPECT_LE(best, 0);
  }
  EXPECT_EQ(text, choice["text"]);

  request["stream"] = true;
  for (const json& event : Events(running.complete(request)).all) {
    const json& piece = event["choices"][0];
    if (piece["logprobs"].is_null()) continue;
    std::string tokens;
    for (const json& token : piece["logprobs"]["tokens"]) tokens += token.get<std::string>();
    EXPECT_EQ(tokens, piece["text"]);
  }

  const json chat = json::parse(running
                                    .chat({{"messages", {{{"role", "user"}, {"content", kPrompt}}}},
                                           {"max_tokens", 4},
                                           {"ignore_eos", true},
                                           {"logprobs", true},
                                           {"top_logprobs", 2}})
                                    .body);
  const json& content = chat["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), 4U);
  EXPECT_EQ(content[0]["top_logprobs"].size(), 2U);
  EXPECT_EQ(content[0]["top_logprobs"][0]["logprob"], content[0]["logprob"]);
  EXPECT_EQ(content[0]["bytes"].size(), content[0]["token"].get<std::string>().size());
}

TEST(Service, APromptThatIsTooLongIsRefusedBeforeAnyStream) {
  const Running running;
  const std::vector<int> ids(600, 5);
  for (const bool stream : {false, true}) {
    const Answer answer = running.complete({{"prompt", ids}, {"stream", stream}});
    EXPECT_EQ(answer.status, 400);
    EXPECT_EQ(answer.header("Content-Type"), "application/json");
    const json error = json::parse(answer.body)["error"];
    EXPECT_EQ(error["code"], "context_length_exceeded");
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("600"));
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("512"));
  }
}

TEST(Service, TheEndOfTheContextIsFinishLength) {
  const Running running;
  const std::vector<int> ids(505, 5);
  const json body =
      json::parse(running.complete({{"prompt", ids}, {"max_tokens", 100}, {"ignore_eos", true}}).body);
  EXPECT_EQ(body["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(body["usage"]["total_tokens"], 512);
}

TEST(Service, AClientThatLeavesFreesItsSequencesRunningAndQueued) {
  Running running({.max_sequences = 2, .queue = 8});
  for (const bool stream : {true, false}) {
    const std::uint64_t cancelled = running.stats().finished_cancelled;
    std::vector<std::unique_ptr<RawClient>> clients;
    for (int i = 0; i < 4; ++i) {  // eight sequences: two run, six wait
      clients.push_back(std::make_unique<RawClient>(running.port()));
      clients.back()->send(Running::request("/v1/completions", long_request({{"stream", stream}, {"n", 2}})));
    }
    ASSERT_TRUE(soon([&] { return running.active() >= 6 && running.stats().running == 2; }));
    clients.clear();
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_TRUE(soon([&] { return running.active() == 0; }));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 2s);
    EXPECT_GE(running.stats().finished_cancelled, cancelled + 6) << "two may have ended by themselves";
    EXPECT_TRUE(soon([&] { return running.stats().kv_blocks_used == 0; }));
  }
  EXPECT_FALSE(running.text({{"prompt", kPrompt}, {"max_tokens", 2}, {"ignore_eos", true}}).empty());
}

// Answers of several megabytes to a client that reads nothing until the model is done: they wait, go out in
// larger pieces, and are complete.
TEST(Service, AClientThatReadsLateGetsEverything) {
  Running running({.max_sequences = 8, .queue = 0});
  const json request{{"messages", {{{"role", "user"}, {"content", kPrompt}}}},
                     {"max_tokens", 480},
                     {"ignore_eos", true},
                     {"n", 8},
                     {"temperature", 1},
                     {"seed", 1},
                     {"logprobs", true},
                     {"top_logprobs", 20}};
  const json whole = json::parse(running.chat(request).body);
  json streamed = request;
  streamed["stream"] = true;
  RawClient client(running.port(), 4096);
  client.send(Running::request("/v1/chat/completions", streamed));
  ASSERT_TRUE(soon([&] { return running.active() == 8; }));
  ASSERT_TRUE(soon([&] { return running.active() == 0; }, 60s));
  std::this_thread::sleep_for(50ms);
  const Answer answer = client.answer();
  EXPECT_TRUE(answer.complete);
  const Events events(answer);
  EXPECT_TRUE(events.done);
  EXPECT_LT(events.all.size(), 8U * 480U) << "nothing had to wait: the test no longer tests anything";
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(events.text(i), whole["choices"][i]["message"]["content"]);
    EXPECT_EQ(events.finishes(i), std::vector<std::string>{"length"});
  }
}

TEST(Service, AFullQueueIs429WithRetryAfterAndHealthStillAnswers) {
  Running running({.max_sequences = 1, .queue = 1});
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 2; ++i) {
    clients.push_back(std::make_unique<RawClient>(running.port()));
    clients.back()->send(Running::request("/v1/completions", long_request({{"stream", true}})));
  }
  ASSERT_TRUE(soon([&] { return running.active() == 2; }));
  const Answer refused = running.complete(long_request());
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.header("Retry-After"), "1");
  EXPECT_EQ(json::parse(refused.body)["error"]["type"], "rate_limit_error");
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(running.get("/health").status, 200);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 1s);
  clients.clear();
  EXPECT_TRUE(soon([&] { return running.active() == 0; }));
  EXPECT_EQ(running.complete({{"prompt", kPrompt}, {"max_tokens", 1}}).status, 200);
}

TEST(Service, ConcurrentStreamsEachGetTheTextTheyGetAlone) {
  const Running running({.max_sequences = 4, .queue = 16});
  const std::vector<std::string> prompts = {"The captain",      "In the winter", kPrompt,
                                            "My uncle left me", "The mole",      "Of all the clocks"};
  std::vector<std::string> alone;
  for (const std::string& prompt : prompts) {
    alone.push_back(running.text({{"prompt", prompt}, {"max_tokens", 32}, {"ignore_eos", true}}));
  }
  std::vector<std::string> together(prompts.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    threads.emplace_back([&, i] {
      together[i] =
          Events(running.complete(
                     {{"prompt", prompts[i]}, {"max_tokens", 32}, {"ignore_eos", true}, {"stream", true}}))
              .text();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(together, alone);
}

TEST(Service, BatchAwareRoutingIsNamedAndCanBeRefusedPerRequest) {
  const std::string policy = "oea:k0=2";
  const Running exact;
  const Running oea({.policy = policy});
  const json request{{"prompt", kPrompt}, {"max_tokens", 16}, {"ignore_eos", true}};
  const Answer batch_aware = oea.complete(request);
  ASSERT_EQ(batch_aware.status, 200) << batch_aware.body;
  EXPECT_THAT(batch_aware.header("X-Tagalong-Routing"), testing::StartsWith("oea:k0=2"));
  EXPECT_THAT(json::parse(batch_aware.body)["system_fingerprint"].get<std::string>(),
              testing::StartsWith("tagalong-1.2.3-oea:k0=2"));
  json pinned = request;
  pinned["routing"] = {{"policy", "exact"}};
  const Answer answer = oea.complete(pinned);
  EXPECT_EQ(answer.header("X-Tagalong-Routing"), "exact");
  EXPECT_EQ(json::parse(answer.body)["system_fingerprint"], "tagalong-1.2.3-exact");
  EXPECT_EQ(json::parse(answer.body)["choices"][0]["text"], exact.text(request));
  pinned["routing"] = {{"policy", "oea"}};
  EXPECT_EQ(oea.complete(pinned).status, 200);
  const Answer refused = exact.complete(pinned);
  EXPECT_EQ(refused.status, 400) << "an exact server does not claim to be batch-aware";
  EXPECT_EQ(json::parse(refused.body)["error"]["param"], "routing.policy");
}

TEST(Service, KeysGuardAllButHealth) {
  const Running running({.keys = ApiKeys({"secret"})});
  EXPECT_EQ(running.get("/health").status, 200);
  EXPECT_EQ(running.get("/ready").status, 200);
  const Answer refused = running.get("/v1/models");
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.header("WWW-Authenticate"), "Bearer");
  EXPECT_EQ(json::parse(refused.body)["error"]["type"], "authentication_error");
  EXPECT_EQ(running.get("/v1/models", "Authorization: Bearer wrong\r\n").status, 401);
  EXPECT_EQ(running.get("/v1/models", "Authorization: Bearer secret\r\n").status, 200);
  EXPECT_EQ(running.complete({{"prompt", kPrompt}}).status, 401);
  EXPECT_EQ(running.send("OPTIONS /v1/completions HTTP/1.1\r\nHost: x\r\n\r\n").status, 204);
}

TEST(Service, DrainingLetsStreamsFinishAndRefusesNewOnes) {
  Running running({.max_sequences = 2, .queue = 8});
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<RawClient>(running.port()));
    json body = long_request({{"stream", true}});
    body["max_tokens"] = 60;
    clients.back()->send(Running::request("/v1/completions", body));
  }
  ASSERT_TRUE(soon([&] { return running.active() == 3; }));
  running.server().shut_down();
  ASSERT_TRUE(soon([&] { return running.server().draining(); }));
  const Answer ready = running.get("/ready");
  EXPECT_TRUE(ready.status == 503 || ready.status == 0) << "0: it had ended already";
  const Answer refused = running.complete({{"prompt", kPrompt}});
  EXPECT_TRUE(refused.status == 503 || refused.status == 0);
  for (const auto& client : clients) {
    const Events events(client->answer());
    EXPECT_TRUE(events.done);
    EXPECT_EQ(events.finishes(), std::vector<std::string>{"length"});
  }
  EXPECT_TRUE(running.join().drained);
}

TEST(Service, AStreamThatIsCutOffSaysSoAndIsNotDone) {
  Running running({.drain = 10ms});
  RawClient client(running.port());
  client.send(Running::request("/v1/completions", long_request({{"stream", true}, {"n", 4}})));
  ASSERT_TRUE(client.wait_for("data: "));
  running.server().shut_down();
  const Events events(client.answer());
  ASSERT_FALSE(events.all.empty());
  if (events.done) GTEST_SKIP() << "the model was faster than the time to drain";
  EXPECT_EQ(events.all.back()["error"]["code"], "server_stopping");
  EXPECT_FALSE(running.join().drained);
}

}  // namespace
}  // namespace tagalong::server
