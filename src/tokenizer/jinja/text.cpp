#include "tokenizer/jinja/text.h"

#include <algorithm>

#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"

namespace tagalong::tokenizer::jinja {

Text Text::from_user(std::string_view text) {
  Text result(text);
  if (!text.empty()) result.user.push_back({0, text.size()});
  return result;
}

void Text::append(const Text& other, std::size_t begin, std::size_t end) {
  const std::size_t shift = bytes.size();
  bytes += std::string_view(other.bytes).substr(begin, end - begin);
  for (const ByteRange& range : other.user) {
    const std::size_t from = std::max(range.begin, begin);
    const std::size_t to = std::min(range.end, end);
    if (from >= to) continue;
    const ByteRange moved{from - begin + shift, to - begin + shift};
    if (!user.empty() && user.back().end == moved.begin) {
      user.back().end = moved.end;
    } else {
      user.push_back(moved);
    }
  }
}

Text Text::sub(std::size_t begin, std::size_t end) const {
  Text result;
  result.append(*this, begin, end);
  return result;
}

Text Text::with_bytes(std::string changed) const {
  if (user.empty()) return Text(changed);
  return from_user(changed);
}

std::vector<std::size_t> code_point_starts(std::string_view text) {
  std::vector<std::size_t> starts;
  for (std::size_t at = 0; at < text.size(); at += code_point_at(text, at).length) starts.push_back(at);
  starts.push_back(text.size());
  return starts;
}

bool is_python_space(char32_t c) {
  return CodePointTable::instance().is(c, kSpaces) || (c >= 0x1C && c <= 0x1F);
}

ByteRange stripped(std::string_view text, std::string_view characters, StripSide side) {
  const auto goes = [&](CodePoint c, std::size_t at) {
    return characters.empty() ? is_python_space(c.value)
                              : characters.find(text.substr(at, c.length)) != std::string_view::npos;
  };
  ByteRange left{0, text.size()};
  while (side != StripSide::right && left.begin < left.end) {
    const CodePoint c = code_point_at(text, left.begin);
    if (!goes(c, left.begin)) break;
    left.begin += c.length;
  }
  while (side != StripSide::left && left.end > left.begin) {
    const CodePoint c = code_point_before(text, left.end);
    if (!goes(c, left.end - c.length)) break;
    left.end -= c.length;
  }
  return left;
}

}  // namespace tagalong::tokenizer::jinja
