#include "server/connection.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/url/parse.hpp>
#include <boost/url/url_view.hpp>
#include <random>
#include <utility>

#include "base/log.h"
#include "server/api_error.h"

namespace tagalong::server {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using ErrorCode = boost::system::error_code;

namespace {

constexpr std::size_t kReadSize = std::size_t{64} << 10;
constexpr std::size_t kReadAhead = std::size_t{64} << 10;     // of later requests, while one is answered
constexpr std::size_t kLingerLimit = std::size_t{256} << 20;  // thrown away after "Connection: close"
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

std::string_view view(boost::core::string_view s) { return {s.data(), s.size()}; }

// A client's id is echoed and logged, so it must be short and plain; any other is replaced.
bool usable_id(std::string_view id) {
  if (id.empty() || id.size() > 128) return false;
  for (const char c : id) {
    if (c <= ' ' || c > '~') return false;
  }
  return true;
}

std::string make_id() {
  static thread_local std::mt19937_64 random{std::random_device{}()};
  return fmt::format("{:016x}{:016x}", random(), random());
}

template <typename Fields>
std::string request_id(const Fields& fields) {
  const auto found = fields.find("X-Request-Id");
  if (found != fields.end() && usable_id(view(found->value()))) return std::string(view(found->value()));
  return make_id();
}

// Path and query of a request target in origin, absolute or asterisk form.
bool split_target(std::string_view target, HttpRequest& request) {
  if (target == "*") {
    request.path = target;
    return request.method == "OPTIONS";
  }
  const auto url =
      target.starts_with('/') ? boost::urls::parse_origin_form(target) : boost::urls::parse_uri(target);
  if (!url) return false;
  request.path = url->path();
  if (request.path.empty()) request.path = "/";
  request.query = std::string(view(url->encoded_query()));
  return true;
}

}  // namespace

struct Connection::Parser {
  http::request_parser<http::string_body> beast;
  HttpRequest request;
};

Connection::Connection(Socket socket, ConnectionHost& host)
    : socket_(std::move(socket)),
      host_(host),
      read_timer_(socket_.get_executor()),
      write_timer_(socket_.get_executor()),
      ping_timer_(socket_.get_executor()) {
  ErrorCode ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);  // a token is a small packet and must not wait
}

Connection::~Connection() = default;

void Connection::start() {
  arm(host_.options().idle_timeout);
  read();
}

void Connection::start_refusing() {
  refusing_ = true;
  keep_alive_ = false;
  start();
}

// --- reading ---

void Connection::read() {
  if (reading_ || end_of_input_ || state_ == State::kClosed) return;
  if (state_ == State::kAnswering && input_.size() >= kReadAhead) return;
  reading_ = true;
  socket_.async_read_some(
      input_.prepare(kReadSize),
      [self = shared_from_this()](ErrorCode error, std::size_t bytes) { self->on_read(error, bytes); });
}

void Connection::on_read(ErrorCode error, std::size_t bytes) {
  reading_ = false;
  if (state_ == State::kClosed) return;
  if (error == asio::error::eof) {
    end_of_input_ = true;
    return on_end_of_input();
  }
  if (error) return close();
  input_.commit(bytes);
  switch (state_) {
    case State::kLingering:
      lingered_ += bytes;
      input_.consume(bytes);
      return lingered_ < kLingerLimit ? read() : close();
    case State::kAnswering:
      return read();
    default:
      return parse();
  }
}

void Connection::on_end_of_input() {
  ExchangePtr exchange;
  switch (state_) {
    case State::kHeader:
    case State::kBody:
      return fail(400, "the request ended early");
    case State::kAnswering:
      // Gone, or only done with sending? A closed socket answers the next bytes with a reset, so send some
      // that mean nothing, and wait for it.
      if (answered_) return;
      exchange = current_.lock();
      if (!exchange || (!exchange->streaming() && !exchange->request().http11)) return close();
      socket_.async_wait(Socket::wait_error, [self = shared_from_this()](ErrorCode error) {
        if (error != asio::error::operation_aborted) self->close();
      });
      return send(exchange->streaming() ? ping_ : std::string(kContinue), Then::kMore);
    case State::kIdle:
    case State::kLingering:
    case State::kClosed:
      return close();
  }
}

void Connection::parse() {
  while (state_ == State::kIdle || state_ == State::kHeader || state_ == State::kBody) {
    if (state_ == State::kIdle) {
      // Empty lines before a request are ignored (RFC 9112, 2.2).
      while (input_.size() != 0) {
        const char c = *static_cast<const char*>(input_.data().data());
        if (c != '\r' && c != '\n') break;
        input_.consume(1);
      }
    }
    if (input_.size() == 0) break;
    if (state_ == State::kIdle) {
      parser_ = std::make_unique<Parser>();
      parser_->beast.header_limit(static_cast<std::uint32_t>(host_.options().header_limit));
      parser_->beast.body_limit(host_.options().body_limit);
      header_bytes_ = 0;
      state_ = State::kHeader;
      arm(host_.options().header_timeout);
    }
    ErrorCode error;
    const std::size_t used = parser_->beast.put(input_.data(), error);
    input_.consume(used);
    if (state_ == State::kHeader) {
      header_bytes_ += used;
      // Beast's own limit counts anew after each complete line; ours is for all of them.
      if (header_bytes_ > host_.options().header_limit) error = http::error::header_limit;
    }
    if (error == http::error::need_more) {
      // A line that never ends: of the headers, or of a chunk's extensions or trailers.
      if (input_.size() <= host_.options().header_limit) break;
      error = state_ == State::kHeader ? http::error::header_limit : http::error::bad_chunk_extension;
    }
    if (error == http::error::header_limit) {
      return fail(
          431, fmt::format("the request's headers are longer than {} bytes", host_.options().header_limit));
    }
    if (error == http::error::body_limit) {
      return fail(413, fmt::format("the request's body is longer than {} bytes", host_.options().body_limit));
    }
    if (error == http::error::bad_version) return fail(505, "only HTTP/1.0 and HTTP/1.1 are spoken here");
    if (error) return fail(400, fmt::format("malformed request: {}", error.message()));
    if (state_ == State::kHeader && parser_->beast.is_header_done() && !begin_body()) return;
    if (parser_->beast.is_done()) return dispatch();
  }
  if (end_of_input_) return on_end_of_input();
  read();
}

// The headers are complete: judges them before the body is read. False if that ended the request.
bool Connection::begin_body() {
  const auto& message = parser_->beast.get();
  HttpRequest& request = parser_->request;
  request.method = std::string(view(message.method_string()));
  request.http11 = message.version() == 11;
  request.id = request_id(message);
  for (const auto& field : message) {
    request.headers.push_back({std::string(view(field.name_string())), std::string(view(field.value()))});
  }
  keep_alive_ = parser_->beast.keep_alive() && !refusing_;

  const auto refuse = [this](int status, std::string_view message_text) {
    fail(status, message_text);
    return false;
  };
  if (!split_target(view(message.target()), request)) return refuse(400, "malformed request target");
  const auto hosts = message.count(http::field::host);
  if (hosts > 1 || (hosts == 0 && request.http11))
    return refuse(400, "a request needs exactly one Host header");
  if (const std::string_view coding = request.header("Transfer-Encoding");
      !coding.empty() && !same_name(coding, "chunked")) {
    return refuse(501, "the only transfer coding understood is 'chunked'");
  }
  if (const std::string_view coding = request.header("Content-Encoding");
      !coding.empty() && !same_name(coding, "identity")) {
    return refuse(415, "compressed request bodies are not supported");
  }
  state_ = State::kBody;
  if (!parser_->beast.is_done()) {
    arm(host_.options().body_timeout);
    if (const std::string_view expect = request.header("Expect"); !expect.empty() && request.http11) {
      if (!same_name(expect, "100-continue"))
        return refuse(417, "the only expectation known is '100-continue'");
      if (input_.size() == 0) send(std::string(kContinue), Then::kMore);
    }
  }
  return true;
}

void Connection::dispatch() {
  read_timer_.cancel();
  state_ = State::kAnswering;
  HttpRequest request = std::move(parser_->request);
  request.body = std::move(parser_->beast.get().body());
  parser_.reset();
  const auto exchange = std::make_shared<Exchange>(std::move(request), weak_from_this());
  current_ = exchange;
  if (refusing_) {
    return exchange->respond(error_response({.status = 503,
                                             .message = "too many connections",
                                             .type = "unavailable_error",
                                             .code = "too_many_connections",
                                             .headers = {{"Retry-After", "1"}}}));
  }
  if (!host_.draining()) {
    counted_ = true;
    host_.request_began();
  }
  host_.handle(exchange);
  if (end_of_input_ && state_ == State::kAnswering) return on_end_of_input();
  read();
}

// A request that cannot be read any further: says why and closes.
void Connection::fail(int status, std::string_view message) {
  read_timer_.cancel();
  spdlog::info("http: refused a request: {} {}", status, message);
  state_ = State::kAnswering;
  keep_alive_ = false;
  HttpRequest request;
  request.method = std::string(view(parser_->beast.get().method_string()));
  request.id = parser_->request.id.empty() ? request_id(parser_->beast.get()) : parser_->request.id;
  parser_.reset();
  const auto exchange = std::make_shared<Exchange>(std::move(request), weak_from_this());
  current_ = exchange;
  exchange->respond(error_response({.status = status, .message = std::string(message)}));
  read();
}

// --- writing ---

void Connection::send(std::string bytes, Then then) {
  if (state_ == State::kClosed || answered_) return;
  last_send_ = std::chrono::steady_clock::now();
  output_ += bytes;
  if (then != Then::kMore) {
    then_ = then;
    answered_ = true;
    current_.reset();
    ping_timer_.cancel();
  }
  flush();
}

void Connection::flush() {
  if (writing_) return;
  if (written_ == in_flight_.size()) {
    if (output_.empty()) {
      if (answered_) answer_written();
      return;
    }
    in_flight_.clear();
    std::swap(in_flight_, output_);
    written_ = 0;
  }
  writing_ = true;
  write_timer_.expires_after(host_.options().write_timeout);
  write_timer_.async_wait([self = shared_from_this()](ErrorCode error) {
    if (error || !self->writing_ || self->write_timer_.expiry() > std::chrono::steady_clock::now()) return;
    self->close();
  });
  socket_.async_write_some(
      asio::buffer(in_flight_.data() + written_, in_flight_.size() - written_),
      [self = shared_from_this()](ErrorCode error, std::size_t bytes) { self->on_written(error, bytes); });
}

void Connection::on_written(ErrorCode error, std::size_t bytes) {
  writing_ = false;
  if (state_ == State::kClosed) return;
  if (error) return close();
  written_ += bytes;
  if (written_ < in_flight_.size() || !output_.empty() || answered_) return flush();
  write_timer_.cancel();
  if (const ExchangePtr exchange = current_.lock()) exchange->wire_ready();
}

void Connection::answer_written() {
  write_timer_.cancel();
  answered_ = false;
  ping_.clear();
  if (std::exchange(counted_, false)) host_.request_ended();
  if (state_ == State::kClosed) return;
  if (then_ == Then::kClose) return linger();
  state_ = State::kIdle;
  arm(host_.options().idle_timeout);
  parse();
}

// Closing with unread bytes makes the kernel reset the connection, and the client may lose the answer: so end
// our side, and read on for a while.
void Connection::linger() {
  ErrorCode ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  if (end_of_input_) return close();
  state_ = State::kLingering;
  lingered_ = 0;
  input_.consume(input_.size());
  arm(host_.options().linger_timeout);
  read();
}

bool Connection::drained() const { return !writing_ && output_.empty(); }

bool Connection::must_close() const { return !keep_alive_ || host_.draining(); }

void Connection::start_pings(std::string bytes) {
  ping_ = std::move(bytes);
  schedule_ping(host_.options().ping_interval);
}

void Connection::schedule_ping(Duration in) {
  ping_timer_.expires_after(in);
  ping_timer_.async_wait([self = shared_from_this()](ErrorCode error) {
    if (error || self->current_.expired() || self->ping_.empty()) return;
    const Duration interval = self->host_.options().ping_interval;
    const auto silent =
        std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - self->last_send_);
    if (silent < interval) return self->schedule_ping(interval - silent);
    if (self->drained()) self->send(self->ping_, Then::kMore);
    self->schedule_ping(interval);
  });
}

// --- ending ---

void Connection::arm(Duration timeout) {
  read_timer_.expires_after(timeout);
  read_timer_.async_wait([self = shared_from_this()](ErrorCode error) {
    // A wait that was overtaken by a new arm() may still arrive as a success.
    if (!error && self->read_timer_.expiry() <= std::chrono::steady_clock::now()) self->on_timeout();
  });
}

void Connection::on_timeout() {
  switch (state_) {
    case State::kHeader:
      return fail(408, "the request's headers did not arrive in time");
    case State::kBody:
      return fail(408, "the request's body did not arrive in time");
    case State::kAnswering:
      return;
    default:
      return close();
  }
}

void Connection::drain() {
  if (state_ == State::kIdle) close();
}

void Connection::shut_down() {
  if (const ExchangePtr exchange = current_.lock()) exchange->shut_down();
  if (!answered_ && state_ != State::kLingering) close();
}

void Connection::abandon() noexcept {
  try {
    asio::post(socket_.get_executor(), [self = shared_from_this()] { self->close(); });
  } catch (...) {  // no memory: the write or drain timeout will end it
  }
}

void Connection::close() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  const auto self = shared_from_this();  // the host lets go of us
  ErrorCode ignored;
  socket_.close(ignored);
  read_timer_.cancel();
  write_timer_.cancel();
  ping_timer_.cancel();
  if (const ExchangePtr exchange = current_.lock()) exchange->wire_closed();
  if (std::exchange(counted_, false)) host_.request_ended();
  host_.connection_closed(this);
}

}  // namespace tagalong::server
