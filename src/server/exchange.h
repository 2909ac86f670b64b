// One request and the way to answer it: whole with respond(), or piece by piece with begin_stream(), write(),
// end(). Made by a connection, held by whoever owes the answer.
//
// All calls on the server's thread (HttpServer::post leads there). Every exchange ends exactly once: by an
// answer, by the client going away, or by the server stopping; calls after that do nothing. An exchange that
// is dropped unanswered closes its connection, so that no client waits for ever. Never blocks, never throws.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "server/http_message.h"

namespace tagalong::server {

enum class CloseReason {
  kClientGone,  // nobody will read an answer
  kShutdown,    // the time to drain is over: a last word may be sent, now
};

// The connection as an exchange sees it.
class Wire {
 public:
  enum class Then { kMore, kKeepAlive, kClose };

  virtual ~Wire() = default;
  virtual void send(std::string bytes, Then then) = 0;
  virtual bool drained() const = 0;                 // everything sent is with the kernel
  virtual bool must_close() const = 0;              // the connection will not be kept after this answer
  virtual void start_pings(std::string bytes) = 0;  // sent whenever the stream was silent for long
  virtual void abandon() noexcept = 0;              // from any thread: close
};

class Exchange {
 public:
  Exchange(HttpRequest request, std::weak_ptr<Wire> wire)
      : request_(std::move(request)), wire_(std::move(wire)) {}
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  const HttpRequest& request() const { return request_; }
  std::string take_body() { return std::move(request_.body); }

  void respond(HttpResponse response);

  // The head goes out at once; `ping` (if any) is written whenever nothing else was for some seconds.
  void begin_stream(HttpResponse head, std::string ping);
  void write(std::string_view bytes);
  void end();

  bool streaming() const { return phase_ == Phase::kStreaming; }
  bool finished() const { return phase_ == Phase::kFinished; }
  // False while the client reads more slowly than we write: hold back, on_ready() says when to go on.
  bool ready() const;
  void on_ready(std::function<void()> callback) { on_ready_ = std::move(callback); }
  void on_close(std::function<void(CloseReason)> callback) { on_close_ = std::move(callback); }

  // For the log: the status that was sent (0: none), whether the client left before the end, and what the
  // handler wants noted.
  int status() const { return status_; }
  bool client_gone() const { return client_gone_; }
  const std::string& noted() const { return noted_; }
  void note(std::string text) { noted_ = std::move(text); }
  void on_finished(std::function<void(const Exchange&)> callback) { on_finished_ = std::move(callback); }

  // Called by the connection.
  void wire_ready();
  void wire_closed();
  void shut_down();

 private:
  enum class Phase { kWaiting, kStreaming, kFinished };

  std::string head(const HttpResponse& response, bool chunked, bool keep) const;
  void send(std::string bytes, Wire::Then then);
  void finish();

  HttpRequest request_;
  std::weak_ptr<Wire> wire_;
  Phase phase_ = Phase::kWaiting;
  bool chunked_ = false;
  bool keep_ = false;
  int status_ = 0;
  bool client_gone_ = false;
  std::string noted_;
  std::function<void()> on_ready_;
  std::function<void(CloseReason)> on_close_;
  std::function<void(const Exchange&)> on_finished_;
};

using ExchangePtr = std::shared_ptr<Exchange>;

}  // namespace tagalong::server
