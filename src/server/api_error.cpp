#include "server/api_error.h"

#include "base/error.h"
#include "base/log.h"
#include "engine/engine.h"
#include "server/json_writer.h"

namespace tagalong::server {

ApiError to_api_error(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const ApiException& e) {
    return e.error;
  } catch (const engine::PromptTooLong& e) {
    return {.message = e.what(), .param = "prompt", .code = "context_length_exceeded"};
  } catch (const engine::EngineClosed&) {
    return {.status = 503,
            .message = "the server is stopping",
            .type = "unavailable_error",
            .code = "server_stopping",
            .headers = {{"Retry-After", "5"}}};
  } catch (const base::InputError& e) {
    return {.message = e.what()};
  } catch (const std::bad_alloc&) {
    spdlog::error("server: out of memory while answering a request");
    return {.status = 503, .message = "out of memory", .type = "unavailable_error", .code = "out_of_memory"};
  } catch (const std::exception& e) {
    spdlog::error("server: internal error: {}", e.what());
  }
  return {
      .status = 500, .message = "internal error; the server's log has the details", .type = "server_error"};
}

std::string error_json(const ApiError& error) {
  const auto word = [](const std::string& s) { return s.empty() ? std::nullopt : std::optional(s); };
  JsonWriter json;
  json.begin_object().key("error").begin_object();
  json.member("message", error.message).member("type", error.type);
  json.member("param", word(error.param)).member("code", word(error.code));
  json.end_object().end_object();
  return json.take();
}

HttpResponse error_response(const ApiError& error) {
  HttpResponse response{.status = error.status, .headers = error.headers, .body = error_json(error)};
  response.headers.push_back({"Content-Type", "application/json"});
  return response;
}

}  // namespace tagalong::server
