// The HTTP/1.1 listener: accepts connections and hands each request to one function, as an Exchange.
//
// One thread, the caller of run(), does all reading, writing and timing; handlers run on it and must not
// block. post(), shut_down(), stop_now() and draining() may be called from any thread, the rest from run()'s
// thread or before it. It never routes and never logs what a request or an answer says.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "server/exchange.h"

namespace tagalong::server {

struct HttpServerOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;  // 0: any free one
  std::size_t header_limit = std::size_t{16} << 10;
  std::size_t body_limit = std::size_t{16} << 20;
  std::size_t max_connections = 1024;                // more are answered 503 and closed
  std::chrono::milliseconds idle_timeout{75'000};    // between requests; longer than the usual proxy's
  std::chrono::milliseconds header_timeout{15'000};  // from a request's first byte to the end of its headers
  std::chrono::milliseconds body_timeout{60'000};
  std::chrono::milliseconds write_timeout{30'000};  // without any progress
  std::chrono::milliseconds linger_timeout{
      2'000};  // reading on after "Connection: close", so the answer arrives
  std::chrono::milliseconds ping_interval{15'000};  // silence after which a stream sends its ping
  std::chrono::milliseconds drain_timeout{30'000};
  bool handle_signals = false;  // SIGINT and SIGTERM: the first drains, the second stops at once
};

// How run() ended.
struct ServerOutcome {
  bool drained = true;  // every request was answered
  int signal = 0;       // the signal that began it, 0 for shut_down()
};

class HttpServer {
 public:
  using Handler = std::function<void(ExchangePtr)>;  // must not throw

  // Binds and listens. Throws base::InputError naming the address and the system's reason.
  explicit HttpServer(HttpServerOptions options);
  ~HttpServer();

  std::uint16_t port() const;
  std::string address() const;  // "http://127.0.0.1:8080"

  // Serves until it is shut down; once per server.
  ServerOutcome run(const Handler& handler);

  // Runs `task` on run()'s thread, soon, in the order of posting.
  void post(std::function<void()> task);

  // From now on the handler is expected to refuse (see draining()); what is in flight may finish within
  // drain_timeout, and then run() returns.
  void shut_down();
  void stop_now();
  bool draining() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tagalong::server
