// A request as it was read and a response as it will be sent: plain data, without a socket.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tagalong::server {

struct HttpHeader {
  std::string name;
  std::string value;
};

struct HttpRequest {
  std::string method;  // as sent: "GET"
  std::string path;    // percent-decoded, begins with '/'; "*" for OPTIONS *
  std::string query;   // raw, without '?'
  bool http11 = true;
  std::vector<HttpHeader>
      headers;  // no trailers: they come after a body that was already judged by its headers
  std::string body;
  std::string id;  // X-Request-Id of the client, or one of ours

  // The first value of a header, by name without regard to case; empty if absent.
  std::string_view header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::vector<HttpHeader> headers =
      {};  // Date, Server, Content-Length, Connection and X-Request-Id are added when sent
  std::string body = {};
};

// Equal without regard to ASCII case.
bool same_name(std::string_view a, std::string_view b);

}  // namespace tagalong::server
