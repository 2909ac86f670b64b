#include "server/exchange.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <iterator>
#include <utility>

namespace tagalong::server {
namespace {

std::string_view reason_phrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "";
  }
}

}  // namespace

Exchange::~Exchange() {
  if (phase_ == Phase::kFinished) return;
  if (const auto wire = wire_.lock()) wire->abandon();
}

std::string Exchange::head(const HttpResponse& response, bool chunked, bool keep) const {
  fmt::memory_buffer out;
  const auto to = std::back_inserter(out);
  fmt::format_to(to, "HTTP/1.1 {} {}\r\n", response.status, reason_phrase(response.status));
  fmt::format_to(to, "Date: {:%a, %d %b %Y %H:%M:%S} GMT\r\n", fmt::gmtime(std::time(nullptr)));
  fmt::format_to(to, "Server: tagalong\r\n");
  for (const HttpHeader& h : response.headers) fmt::format_to(to, "{}: {}\r\n", h.name, h.value);
  if (!request_.id.empty()) fmt::format_to(to, "X-Request-Id: {}\r\n", request_.id);
  if (chunked) {
    fmt::format_to(to, "Transfer-Encoding: chunked\r\n");
  } else if (phase_ == Phase::kWaiting && response.status != 204) {
    fmt::format_to(to, "Content-Length: {}\r\n", response.body.size());
  }
  if (!keep) {
    fmt::format_to(to, "Connection: close\r\n");
  } else if (!request_.http11) {
    fmt::format_to(to, "Connection: keep-alive\r\n");
  }
  fmt::format_to(to, "\r\n");
  return fmt::to_string(out);
}

void Exchange::send(std::string bytes, Wire::Then then) {
  if (const auto wire = wire_.lock()) wire->send(std::move(bytes), then);
}

void Exchange::respond(HttpResponse response) {
  if (phase_ != Phase::kWaiting) return;
  const auto wire = wire_.lock();
  status_ = response.status;
  keep_ = wire && !wire->must_close();
  std::string bytes = head(response, false, keep_);
  if (request_.method != "HEAD") bytes += response.body;
  finish();
  send(std::move(bytes), keep_ ? Wire::Then::kKeepAlive : Wire::Then::kClose);
}

void Exchange::begin_stream(HttpResponse response, std::string ping) {
  if (phase_ != Phase::kWaiting) return;
  const auto wire = wire_.lock();
  status_ = response.status;
  phase_ = Phase::kStreaming;
  chunked_ = request_.http11;
  // Without chunks only the end of the connection tells the end of the body.
  keep_ = chunked_ && wire && !wire->must_close();
  send(head(response, chunked_, keep_), Wire::Then::kMore);
  if (wire && !ping.empty()) {
    wire->start_pings(chunked_ ? fmt::format("{:x}\r\n{}\r\n", ping.size(), ping) : std::move(ping));
  }
}

void Exchange::write(std::string_view bytes) {
  if (phase_ != Phase::kStreaming || bytes.empty()) return;  // an empty chunk would end the body
  send(chunked_ ? fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes) : std::string(bytes), Wire::Then::kMore);
}

void Exchange::end() {
  if (phase_ != Phase::kStreaming) return;
  finish();
  send(chunked_ ? "0\r\n\r\n" : "", keep_ ? Wire::Then::kKeepAlive : Wire::Then::kClose);
}

bool Exchange::ready() const {
  const auto wire = wire_.lock();
  return wire && wire->drained();
}

void Exchange::finish() {
  phase_ = Phase::kFinished;
  on_ready_ = nullptr;
  on_close_ = nullptr;
  if (const auto noted = std::exchange(on_finished_, nullptr)) noted(*this);
}

void Exchange::wire_ready() {
  if (const auto callback = on_ready_) callback();  // a copy: the callback may end the exchange
}

void Exchange::wire_closed() {
  if (phase_ == Phase::kFinished) return;
  const auto callback = std::move(on_close_);
  client_gone_ = true;
  finish();
  if (callback) callback(CloseReason::kClientGone);
}

void Exchange::shut_down() {
  if (phase_ == Phase::kFinished) return;
  if (const auto callback = std::exchange(on_close_, nullptr)) callback(CloseReason::kShutdown);
}

}  // namespace tagalong::server
