// Writes what was generated as OpenAI's JSON: whole, or as a stream of server-sent events.
//
// On the server's thread. A stream's first chunk of each choice carries the role, exactly one the finish
// reason; the last event is [DONE], or an error that says why it did not come to that.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/api_error.h"
#include "server/exchange.h"
#include "server/openai_request.h"
#include "server/text_pipe.h"

namespace tagalong::server {

struct Usage {
  int prompt_tokens = 0;
  int completion_tokens = 0;
};

struct AnswerOptions {
  Endpoint endpoint = Endpoint::kCompletions;
  std::string id;
  std::int64_t created = 0;  // seconds since 1970
  std::string model;
  std::string routing;      // for the header that names the policy
  std::string fingerprint;  // names it too
  int choices = 1;
  bool logprobs = false;
  int top_logprobs = 0;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
};

class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;
  virtual void begin() = 0;
  virtual void add(int choice, Delta delta, const Usage& so_far) = 0;
  virtual void end(const Usage& usage) = 0;
  virtual void fail(const ApiError& error) = 0;
};

std::unique_ptr<AnswerWriter> make_answer_writer(ExchangePtr exchange, AnswerOptions options);

// An event of a stream: the JSON on one line, as the writer leaves it.
std::string sse_event(std::string_view json);
inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";
inline constexpr std::string_view kSsePing = ": ping\n\n";

}  // namespace tagalong::server
