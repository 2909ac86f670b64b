// Any bytes as tokenizer.json and as tokenizer_config.json: a tokenizer comes out, or an InputError.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "tokenizer/stream_decoder.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_config.h"

using tagalong::base::InputError;
using tagalong::tokenizer::Tokenizer;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    tagalong::tokenizer::TokenizerConfig::parse(text, "config");
  } catch (const InputError&) {
  }
  try {
    const Tokenizer tokenizer = Tokenizer::from_json(text, "fuzz");
    for (const std::string_view sample :
         {"", "a b", "Hello, W\u00F6rld 123\n\n", "e\u0301 \xF0\x9F\x98\x80 <x>"}) {
      try {
        const auto tokens = tokenizer.encode_with_offsets(sample);
        std::vector<std::int32_t> ids;
        for (const auto& token : tokens) {
          CHECK(tokenizer.has_token(token.id), "{}", token.id);
          CHECK(token.range.begin <= token.range.end && token.range.end <= sample.size());
          ids.push_back(token.id);
        }
        CHECK(ids == tokenizer.encode(sample));
        tokenizer.decode(ids);
      } catch (const InputError&) {
      }
    }
  } catch (const InputError&) {
  }
  return 0;
}
