// Any bytes as text for the bundled tokenizer, and as token ids: the round trip holds, streaming equals
// decoding as a whole, and marks of user text never lose a byte. Run in the source folder, where the bundled
// model lies.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "tokenizer/stream_decoder.h"
#include "tokenizer/tokenizer.h"

using tagalong::base::InputError;
using tagalong::tokenizer::ByteRange;
using tagalong::tokenizer::StreamDecoder;
using tagalong::tokenizer::Tokenizer;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Tokenizer tokenizer = Tokenizer::load("models/storyteller");
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const auto ids = tokenizer.encode(text);
    CHECK(tokenizer.decode(ids) == text);
    const ByteRange user[] = {{size / 3, size - size / 3}};
    CHECK(tokenizer.decode(tokenizer.encode(text, {.user_text = user})) == text);
  } catch (const InputError&) {
  }
  std::vector<std::int32_t> ids(size / 2);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::uint16_t id = 0;
    std::memcpy(&id, data + 2 * i, 2);
    ids[i] = id % tokenizer.vocab_size();
  }
  StreamDecoder stream(tokenizer);
  std::string streamed;
  for (const std::int32_t id : ids) streamed += stream.push(id);
  streamed += stream.finish();
  CHECK(streamed == tokenizer.decode(ids));
  return 0;
}
