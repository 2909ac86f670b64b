#include "server/http_server.h"

#include <atomic>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <csignal>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "server/connection.h"

namespace tagalong::server {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;
using tcp = asio::ip::tcp;

namespace {

constexpr std::chrono::milliseconds kAcceptRetry{100};  // after running out of file descriptors
constexpr std::chrono::milliseconds kLastWord{500};     // for what is written when the time to drain is over

tcp::endpoint resolve(asio::io_context& io, const std::string& host, std::uint16_t port) {
  ErrorCode error;
  const auto address = asio::ip::make_address(host, error);
  if (!error) return {address, port};
  tcp::resolver resolver(io);
  const auto found = resolver.resolve(host, std::to_string(port), tcp::resolver::passive, error);
  if (error || found.empty()) throw base::input_error("cannot listen on {}: {}", host, error.message());
  return *found.begin();
}

}  // namespace

struct HttpServer::Impl final : ConnectionHost {
  explicit Impl(HttpServerOptions o) : settings(std::move(o)) {}

  const HttpServerOptions& options() const override { return settings; }
  bool draining() const override { return is_draining; }
  void handle(ExchangePtr exchange) override { (*handler)(std::move(exchange)); }
  void request_began() override { ++in_flight; }
  void request_ended() override {
    --in_flight;
    if (is_draining && in_flight == 0) finish_drain();
  }
  void connection_closed(const Connection* connection) override {
    connections.erase(connection);
    if (finishing && connections.empty()) io.stop();
  }

  void listen();
  void accept();
  void wait_for_signal();
  void drain(int signal);
  void cut_off();
  void finish_drain();

  HttpServerOptions settings;
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  tcp::acceptor acceptor{io};
  asio::steady_timer accept_timer{io};
  asio::steady_timer drain_timer{io};
  asio::signal_set signals{io};
  tcp::endpoint bound;
  const Handler* handler = nullptr;
  std::unordered_map<const Connection*, std::shared_ptr<Connection>> connections;
  std::size_t in_flight = 0;  // requests that must be answered before the server stops
  std::atomic<bool> is_draining{false};
  bool finishing = false;  // nothing is in flight any more, only sockets to close
  ServerOutcome outcome;
};

void HttpServer::Impl::listen() {
  const tcp::endpoint wanted = resolve(io, settings.host, settings.port);
  ErrorCode error;
  const auto check = [&] {
    if (error)
      throw base::input_error("cannot listen on {}:{}: {}", settings.host, settings.port, error.message());
  };
  acceptor.open(wanted.protocol(), error);
  check();
  acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  check();
  acceptor.bind(wanted, error);
  check();
  acceptor.listen(asio::socket_base::max_listen_connections, error);
  check();
  bound = acceptor.local_endpoint();
  if (settings.handle_signals) {
    signals.add(SIGINT);
    signals.add(SIGTERM);
  }
}

void HttpServer::Impl::accept() {
  acceptor.async_accept([this](ErrorCode error, tcp::socket socket) {
    if (error == asio::error::operation_aborted) return;
    if (!error) {
      const bool full = connections.size() >= settings.max_connections;
      const auto connection = std::make_shared<Connection>(std::move(socket), *this);
      connections.emplace(connection.get(), connection);
      full ? connection->start_refusing() : connection->start();
      return accept();
    }
    spdlog::warn("http: cannot accept a connection: {}", error.message());
    accept_timer.expires_after(kAcceptRetry);
    accept_timer.async_wait([this](ErrorCode cancelled) {
      if (!cancelled) accept();
    });
  });
}

void HttpServer::Impl::wait_for_signal() {
  if (!settings.handle_signals) return;
  signals.async_wait([this](ErrorCode error, int number) {
    if (error) return;
    if (is_draining) {
      spdlog::warn("http: stopping at once, {} requests are cut off", in_flight);
      outcome = {.drained = in_flight == 0, .signal = number};
      return io.stop();
    }
    drain(number);
    wait_for_signal();
  });
}

void HttpServer::Impl::drain(int signal) {
  if (is_draining.exchange(true)) return;
  outcome.signal = signal;
  spdlog::info("http: shutting down, {} requests in flight may finish within {} s", in_flight,
               std::chrono::duration_cast<std::chrono::seconds>(settings.drain_timeout).count());
  const auto all = connections;  // closing changes the map
  for (const auto& [key, connection] : all) connection->drain();
  if (in_flight == 0) return finish_drain();
  drain_timer.expires_after(settings.drain_timeout);
  drain_timer.async_wait([this](ErrorCode error) {
    if (!error && !finishing) cut_off();
  });
}

void HttpServer::Impl::cut_off() {
  spdlog::warn("http: {} requests did not finish in time and are cut off", in_flight);
  outcome.drained = false;
  const auto all = connections;
  for (const auto& [key, connection] : all) connection->shut_down();
  finish_drain();
}

void HttpServer::Impl::finish_drain() {
  if (finishing) return;
  finishing = true;
  acceptor.close();
  if (connections.empty()) return io.stop();
  drain_timer.expires_after(kLastWord);
  drain_timer.async_wait([this](ErrorCode error) {
    if (!error) io.stop();
  });
}

HttpServer::HttpServer(HttpServerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {
  impl_->listen();
}

HttpServer::~HttpServer() = default;

std::uint16_t HttpServer::port() const { return impl_->bound.port(); }

std::string HttpServer::address() const {
  const auto host = impl_->bound.address();
  const std::string name = host.is_v6() ? "[" + host.to_string() + "]" : host.to_string();
  return fmt::format("http://{}:{}", name, port());
}

ServerOutcome HttpServer::run(const Handler& handler) {
  impl_->handler = &handler;
  impl_->accept();
  impl_->wait_for_signal();
  impl_->io.run();
  // Whoever still waits for an exchange is told now, while the handler's owner is alive.
  const auto all = std::move(impl_->connections);
  impl_->connections.clear();
  impl_->finishing = true;
  for (const auto& [key, connection] : all) connection->close();
  return impl_->outcome;
}

void HttpServer::post(std::function<void()> task) { asio::post(impl_->io, std::move(task)); }

void HttpServer::shut_down() {
  asio::post(impl_->io, [this] { impl_->drain(0); });
}

void HttpServer::stop_now() {
  asio::post(impl_->io, [this] {
    impl_->is_draining = true;
    impl_->outcome.drained = impl_->in_flight == 0;
    impl_->io.stop();
  });
}

bool HttpServer::draining() const { return impl_->is_draining; }

}  // namespace tagalong::server
