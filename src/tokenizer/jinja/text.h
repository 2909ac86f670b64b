// Text that knows which of its bytes came from the user.
//
// Plain data; one thread at a time. Every operation of the template language keeps the marks, so that what a
// user wrote stays text even when it looks like a control token.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace tagalong::tokenizer::jinja {

struct Text {
  std::string bytes;            // UTF-8
  std::vector<ByteRange> user;  // ascending, not empty, not touching

  Text() = default;
  explicit Text(std::string_view trusted) : bytes(trusted) {}
  static Text from_user(std::string_view text);

  void append(const Text& other) { append(other, 0, other.bytes.size()); }
  // The bytes [begin, end) of the other.
  void append(const Text& other, std::size_t begin, std::size_t end);
  void append(std::string_view trusted) { bytes += trusted; }
  Text sub(std::size_t begin, std::size_t end) const;
  // The same marks on other bytes would be wrong: all of the result is user text if any of this is.
  Text with_bytes(std::string changed) const;
};

// Where each code point begins, and the end.
std::vector<std::size_t> code_point_starts(std::string_view text);

// The range that is left when characters of `characters` are taken off the ends; white space if it is empty.
enum class StripSide { both, left, right };
ByteRange stripped(std::string_view text, std::string_view characters, StripSide side);

// Python's str.isspace for one character.
bool is_python_space(char32_t c);

}  // namespace tagalong::tokenizer::jinja
