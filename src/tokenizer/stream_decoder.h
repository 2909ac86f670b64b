// Decoding token by token, as they are generated.
//
// For one text and one thread at a time. Never emits half a character; all that push and finish return, put
// together, is what Tokenizer::decode makes of the same ids.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tokenizer/tokenizer.h"

namespace tagalong::tokenizer {

class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, DecodeOptions options = {});
  ~StreamDecoder();
  StreamDecoder(StreamDecoder&&) noexcept;
  StreamDecoder& operator=(StreamDecoder&&) noexcept;

  // The text that the token has settled, often empty. Throws InputError naming an id that is no token.
  std::string push(std::int32_t id);
  // What was held back; an incomplete character becomes U+FFFD. The decoder can then begin a new text.
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tagalong::tokenizer
