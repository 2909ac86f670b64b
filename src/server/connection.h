// One client's socket: reads requests, one at a time in their order, and writes what their exchanges send.
//
// Lives on the server's thread. While a request is being answered it keeps reading (within a limit), so that
// a client that goes away is noticed at once; a client that only closed its sending side still gets its
// answer.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "server/exchange.h"
#include "server/http_server.h"

namespace tagalong::server {

class Connection;

// What a connection needs of its server.
class ConnectionHost {
 public:
  virtual ~ConnectionHost() = default;
  virtual const HttpServerOptions& options() const = 0;
  virtual bool draining() const = 0;
  virtual void handle(ExchangePtr exchange) = 0;
  virtual void request_began() = 0;  // one that must be answered before the server stops
  virtual void request_ended() = 0;
  virtual void connection_closed(const Connection* connection) = 0;
};

class Connection final : public Wire, public std::enable_shared_from_this<Connection> {
 public:
  using Socket = boost::asio::ip::tcp::socket;

  Connection(Socket socket, ConnectionHost& host);
  ~Connection() override;

  void start();
  // Answers 503 whatever is asked, and closes.
  void start_refusing();
  // The server drains: closes if nothing is going on, else after the answer.
  void drain();
  // The time to drain is over: the exchange may say a last word.
  void shut_down();
  void close();

  void send(std::string bytes, Then then) override;
  bool drained() const override;
  bool must_close() const override;
  void start_pings(std::string bytes) override;
  void abandon() noexcept override;

 private:
  struct Parser;
  enum class State { kIdle, kHeader, kBody, kAnswering, kLingering, kClosed };
  using Duration = std::chrono::milliseconds;

  void read();
  void on_read(boost::system::error_code error, std::size_t bytes);
  void on_end_of_input();
  void parse();
  bool begin_body();
  void dispatch();
  void fail(int status, std::string_view message);
  void flush();
  void on_written(boost::system::error_code error, std::size_t bytes);
  void answer_written();
  void linger();
  void schedule_ping(Duration in);
  void arm(Duration timeout);
  void on_timeout();

  Socket socket_;
  ConnectionHost& host_;
  boost::asio::steady_timer read_timer_;
  boost::asio::steady_timer write_timer_;
  boost::asio::steady_timer ping_timer_;

  State state_ = State::kIdle;
  bool refusing_ = false;
  bool reading_ = false;
  bool end_of_input_ = false;  // the client sends no more
  boost::beast::flat_buffer input_;
  std::unique_ptr<Parser> parser_;
  std::size_t header_bytes_ = 0;
  std::size_t lingered_ = 0;
  bool keep_alive_ = true;

  std::weak_ptr<Exchange> current_;  // while unanswered; whoever owes the answer holds it
  bool counted_ = false;             // request_began() was called for it
  bool answered_ = false;            // all of the answer is in output_
  Then then_ = Then::kMore;
  std::string output_;     // not yet given to the kernel
  std::string in_flight_;  // being written, from written_ on
  std::size_t written_ = 0;
  bool writing_ = false;
  std::string ping_;
  std::chrono::steady_clock::time_point last_send_;
};

}  // namespace tagalong::server
