// UTF-8: strict reading of valid text, the place of the first fault in other text, and the lossy decoding
// that turns bytes into text.
//
// Pure functions and one small state machine; any thread, one LossyDecoder per thread. Nothing here replaces
// bytes unless its name says lossy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tagalong::tokenizer {

struct CodePoint {
  char32_t value;
  std::uint32_t length;  // bytes
};

// The code point at `position` of text that is known to be valid UTF-8.
CodePoint code_point_at(std::string_view valid, std::size_t position);

// The code point that ends just before `position` (> 0) of valid text.
CodePoint code_point_before(std::string_view valid, std::size_t position);

void append_utf8(std::string& out, char32_t code_point);

// The byte offset of the first fault, or nothing when all is valid. A text that ends inside a character is
// faulty at the start of that character.
std::optional<std::size_t> find_invalid_utf8(std::string_view text);

// Throws InputError naming `what` and the offset unless the text is valid UTF-8.
void require_utf8(std::string_view text, std::string_view what);

// Bytes in, valid UTF-8 out; every maximal part of a character that is not completed becomes one U+FFFD, as
// Unicode recommends and Rust's from_utf8_lossy does. An incomplete character at the end waits for more
// bytes.
class LossyDecoder {
 public:
  void push(std::string_view bytes, std::string& out);
  // The end of the bytes: what still waits becomes U+FFFD.
  void finish(std::string& out);

 private:
  std::string waiting_;  // at most three bytes, the valid start of a character
};

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

}  // namespace tagalong::tokenizer
