// What a client is told when its request cannot be served, and the one place where failures become statuses.
//
// Anything below a handler throws: ApiException to say exactly what, base::InputError for bad input, anything
// else for a bug. to_api_error() decides the status; nothing else in the server does. Safe from any thread.
#pragma once

#include <fmt/format.h>

#include <exception>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "server/http_message.h"

namespace tagalong::server {

struct ApiError {
  int status = 400;
  std::string message = {};
  std::string type = "invalid_request_error";
  std::string param = {};                // the offending field; empty: null in JSON
  std::string code = {};                 // a word for programs; empty: null in JSON
  std::vector<HttpHeader> headers = {};  // Retry-After, Allow, WWW-Authenticate
};

class ApiException : public std::runtime_error {
 public:
  explicit ApiException(ApiError e) : std::runtime_error(e.message), error(std::move(e)) {}
  ApiError error;
};

// A 400 that names the field: throw bad_field("top_p", "must be at most 1, got {}", value);
template <typename... Args>
[[nodiscard]] ApiException bad_field(std::string param, fmt::format_string<Args...> format, Args&&... args) {
  std::string message = fmt::format("'{}' ", param) + fmt::format(format, std::forward<Args>(args)...);
  return ApiException({.message = std::move(message), .param = std::move(param)});
}

// The status, type and text for what was thrown. A bug's text stays in the log: the client gets a 500 without
// it.
ApiError to_api_error(const std::exception_ptr& thrown);

// {"error":{"message","type","param","code"}}, for a body or an event of a stream.
std::string error_json(const ApiError& error);

HttpResponse error_response(const ApiError& error);

}  // namespace tagalong::server
