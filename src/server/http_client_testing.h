// A client for tests that writes raw bytes to 127.0.0.1 and reads answers apart again. Every wait ends after
// ten seconds with a failed answer, so that a test of a hanging server fails instead of hanging.
#pragma once

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace tagalong::server {

struct Answer {
  int status = 0;  // 0: none came
  std::multimap<std::string, std::string> headers;
  std::string body;       // chunks put together
  bool complete = false;  // the end of the body was seen

  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

class RawClient {
 public:
  // `receive_buffer` bytes, if any, are all that the kernel takes in for a client that does not read.
  explicit RawClient(std::uint16_t port, int receive_buffer = 0)
      : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_buffer > 0)
      ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  ~RawClient() { close(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return connected_; }

  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }
  void half_close() { ::shutdown(socket_, SHUT_WR); }
  void close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }

  // Reads once; false at the end of input, on an error or after the timeout.
  bool receive(std::chrono::milliseconds timeout = std::chrono::seconds(10)) {
    pollfd wait{.fd = socket_, .events = POLLIN, .revents = 0};
    if (::poll(&wait, 1, static_cast<int>(timeout.count())) <= 0) return false;
    char buffer[16384];
    const ssize_t n = ::recv(socket_, buffer, sizeof(buffer), 0);
    if (n == 0) ended_ = true;
    if (n <= 0) return false;
    input_.append(buffer, static_cast<std::size_t>(n));
    return true;
  }
  // True once the server has closed its side in good order.
  bool ended() {
    while (!ended_ && receive()) {
    }
    return ended_;
  }
  const std::string& unread() const { return input_; }

  // Waits until `text` has arrived, without taking anything.
  bool wait_for(std::string_view text) {
    while (input_.find(text) == std::string::npos) {
      if (!receive()) return false;
    }
    return true;
  }

  // Takes the next answer, 1xx answers aside. `head_only`: it has no body, whatever it says.
  Answer answer(bool head_only = false) {
    Answer answer;
    do {
      answer = Answer();
      if (!wait_for("\r\n\r\n")) return answer;
      const std::size_t end = input_.find("\r\n\r\n");
      parse_head(input_.substr(0, end + 2), answer);
      input_.erase(0, end + 4);
    } while (answer.status / 100 == 1);
    if (head_only || answer.status == 204) {
      answer.complete = true;
    } else if (answer.header("Transfer-Encoding") == "chunked") {
      while (take_chunk(answer)) {
      }
    } else if (const std::string length = answer.header("Content-Length"); !length.empty()) {
      const std::size_t bytes = std::stoul(length);
      while (input_.size() < bytes && receive()) {
      }
      answer.complete = input_.size() >= bytes;
      answer.body = input_.substr(0, bytes);
      input_.erase(0, bytes);
    } else {
      answer.complete = ended();
      answer.body = std::exchange(input_, "");
    }
    return answer;
  }

 private:
  static void parse_head(std::string_view head, Answer& answer) {
    answer.status = std::stoi(std::string(head.substr(9, 3)));
    for (head.remove_prefix(head.find("\r\n") + 2); !head.empty();) {
      const std::size_t end = head.find("\r\n");
      const std::string_view line = head.substr(0, end);
      const std::size_t colon = line.find(": ");
      answer.headers.emplace(line.substr(0, colon), line.substr(colon + 2));
      head.remove_prefix(end + 2);
    }
  }

  bool take_chunk(Answer& answer) {
    std::size_t line = 0;
    while ((line = input_.find("\r\n")) == std::string::npos) {
      if (!receive()) return false;
    }
    const std::size_t size = std::stoul(input_.substr(0, line), nullptr, 16);
    while (input_.size() < line + 2 + size + 2) {
      if (!receive()) return false;
    }
    answer.body += input_.substr(line + 2, size);
    input_.erase(0, line + 2 + size + 2);
    answer.complete = size == 0;
    return size != 0;
  }

  int socket_;
  bool connected_ = false;
  bool ended_ = false;
  std::string input_;
};

}  // namespace tagalong::server
