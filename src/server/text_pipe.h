// From the tokens of one answer to text that may be sent: decodes, looks for stop strings, and holds back
// what is not certain yet. One thread at a time; knows nothing of JSON or sockets.
//
// Never gives half a character. Where log probabilities are wanted, text is given token by token: what one
// take() returns is then the text of exactly the tokens it returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/sampler.h"
#include "server/stop_matcher.h"
#include "tokenizer/stream_decoder.h"
#include "tokenizer/tokenizer.h"

namespace tagalong::server {

// A token as log probabilities show it. The bytes need not be whole characters.
struct TokenRecord {
  std::string bytes;
  float logprob = 0;
  std::vector<std::pair<std::string, float>> top;  // likeliest first
  std::size_t offset = 0;                          // characters of the text before it
};

// A piece of an answer. An empty `finish` means that more may come.
struct Delta {
  std::string text;
  std::vector<TokenRecord> tokens;  // only with log probabilities
  std::string_view finish;          // "stop" or "length"

  bool empty() const { return text.empty() && tokens.empty() && finish.empty(); }
};

class TextPipe {
 public:
  enum class Logprobs { kNo, kYes };

  // The tokenizer must outlive the pipe. `prefix` is text that comes before all tokens (an echoed prompt).
  TextPipe(const tokenizer::Tokenizer& tokenizer, std::vector<std::string> stops, Logprobs logprobs,
           std::string prefix);

  // The next token. Ignored after a stop string was found, see stopped().
  void push(std::int32_t id, float logprob, std::span<const engine::TokenLogprob> top);
  // No more tokens will come: nothing is held back any longer. `reason` unless a stop string says "stop".
  void finish(std::string_view reason);

  bool stopped() const { return stops_.matched(); }
  bool finished() const { return finished_; }

  // What has become certain since the last call.
  Delta take();

 private:
  struct Held {
    TokenRecord record;
    std::size_t end = 0;   // bytes of the text after it
    bool settled = false;  // false while its character may still be incomplete
  };

  void append(std::string_view piece);
  TokenRecord record_of(std::int32_t id, float logprob, std::span<const engine::TokenLogprob> top) const;
  std::string bytes_of(std::int32_t id) const;

  const tokenizer::Tokenizer& tokenizer_;
  tokenizer::StreamDecoder decoder_;
  StopMatcher stops_;
  bool logprobs_;
  std::string text_;            // not yet taken
  std::size_t taken_ = 0;       // bytes taken
  std::size_t prefix_ = 0;      // bytes of the prefix: never searched for stop strings
  std::size_t characters_ = 0;  // of all text so far
  std::deque<Held> held_;
  std::string_view reason_;
  bool finished_ = false;
  bool finish_given_ = false;
};

}  // namespace tagalong::server
