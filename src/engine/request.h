// What a caller asks of the engine and what comes back for each token. Plain data: token ids only, no text.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engine/sampler.h"
#include "engine/sampling.h"

namespace tagalong::engine {

using RequestId = std::uint64_t;

struct Request {
  std::vector<std::int32_t> prompt;  // at least one id
  int max_tokens = 16;               // at least 1; fewer come when the context ends first
  SamplingParams sampling;
  std::vector<std::int32_t> stop_ids;  // any of these ends the sequence; empty ignores the end of text
  bool exact_routing = false;          // this request's rows are routed exactly, whatever the policy
  int top_logprobs = 0;                // likeliest tokens reported with each token, at most kMaxTopLogprobs
};

enum class FinishReason : std::uint8_t {
  kStop,       // one of stop_ids was generated; it is the id of the last event
  kLength,     // max_tokens, or the end of the context
  kCancelled,  // by cancel(), or because the engine went away; the last event carries no token
};

inline constexpr std::int32_t kNoToken = -1;

// One token of a request. Valid during the callback only.
struct TokenEvent {
  std::int32_t id = kNoToken;
  float logprob = 0;
  std::span<const TokenLogprob> top{};   // [Request::top_logprobs], likeliest first
  std::span<const float> logits{};       // [vocab] that the token was picked from
  std::optional<FinishReason> finish{};  // set in the last event, of which every request gets exactly one
  int prompt_tokens = 0;
  int generated_tokens = 0;  // this one included
};

// Called on the engine's thread, in order. Must not throw and must not wait for the engine; may call submit()
// and cancel().
using TokenCallback = std::function<void(const TokenEvent&)>;

}  // namespace tagalong::engine
