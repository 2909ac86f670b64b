// What a client asks of /v1/completions or /v1/chat/completions, read from JSON and checked. Plain data.
//
// Everything that can be judged without tokenising is judged here. A field that would change the result and
// that is not supported is refused unless it has the value that changes nothing; harmless ones are ignored.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/sampling.h"
#include "server/json_fields.h"

namespace tagalong::server {

enum class Endpoint { kCompletions, kChat };

// A prompt as text, or as token ids, which are taken as they are.
using Prompt = std::variant<std::string, std::vector<std::int32_t>>;

struct OpenAiRequest {
  Endpoint endpoint = Endpoint::kCompletions;
  std::string model;                        // empty: not given
  std::vector<Prompt> prompts;              // completions: at least one
  nlohmann::ordered_json messages;          // chat: [{role, content, ...}], contents are strings
  nlohmann::ordered_json template_options;  // chat: variables for the template
  bool generation_prompt = true;            // chat: the template opens the assistant's turn

  std::optional<int> max_tokens;  // absent: the endpoint's default
  engine::SamplingParams sampling;
  std::optional<std::uint64_t> seed;
  std::vector<std::string> stop;
  std::vector<std::int32_t> stop_token_ids;
  bool ignore_eos = false;
  int n = 1;
  bool echo = false;
  std::optional<int> logprobs;  // likeliest tokens reported with each token; absent: no log probabilities
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  std::optional<std::string> routing;  // the policy asked for; the service knows which there are
};

struct RequestLimits {
  int vocab = 0;                         // token ids are below it
  int max_choices = 0;                   // prompts x n
  engine::SamplingParams sampling = {};  // for fields that are absent
};

// Throws ApiException (400) naming the field.
OpenAiRequest parse_completion_request(const Json& body, const RequestLimits& limits);
OpenAiRequest parse_chat_request(const Json& body, const RequestLimits& limits);

}  // namespace tagalong::server
