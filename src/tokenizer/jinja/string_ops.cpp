#include "tokenizer/jinja/string_ops.h"

#include <utf8proc.h>

#include <algorithm>

#include "tokenizer/utf8.h"

namespace tagalong::tokenizer::jinja {
namespace {

template <typename Map>
std::string mapped(std::string_view text, Map&& map) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    append_utf8(out, static_cast<char32_t>(map(static_cast<utf8proc_int32_t>(c.value))));
    at += c.length;
  }
  return out;
}

std::vector<Text> split_at_space(const Text& text, std::int64_t limit) {
  std::vector<Text> parts;
  std::size_t at = 0;
  const std::string_view bytes = text.bytes;
  while (true) {
    at += stripped(bytes.substr(at), "", StripSide::left).begin;
    if (at == bytes.size()) return parts;
    if (limit >= 0 && static_cast<std::int64_t>(parts.size()) == limit) {
      parts.push_back(text.sub(at, bytes.size()));
      return parts;
    }
    std::size_t end = at;
    while (end < bytes.size()) {
      const CodePoint c = code_point_at(bytes, end);
      if (is_python_space(c.value)) break;
      end += c.length;
    }
    parts.push_back(text.sub(at, end));
    at = end;
  }
}

}  // namespace

std::string to_upper(std::string_view text) {
  // The one common letter whose capital is two.
  constexpr std::string_view kSharpS = "ß";
  std::string out;
  for (std::size_t at = text.find(kSharpS); at != text.npos; at = text.find(kSharpS)) {
    out += mapped(text.substr(0, at), utf8proc_toupper) + "SS";
    text.remove_prefix(at + kSharpS.size());
  }
  return out += mapped(text, utf8proc_toupper);
}
std::string to_lower(std::string_view text) { return mapped(text, utf8proc_tolower); }

std::string capitalized(std::string_view text) {
  if (text.empty()) return {};
  const std::size_t first = code_point_at(text, 0).length;
  return mapped(text.substr(0, first), utf8proc_totitle) + to_lower(text.substr(first));
}

Text replace(const Text& text, std::string_view from, const Text& to, std::int64_t count) {
  Text result;
  std::size_t done = 0;
  if (from.empty()) {
    // Python puts the new text between all characters, and at both ends.
    const auto starts = code_point_starts(text.bytes);
    for (std::size_t i = 0; i < starts.size(); ++i) {
      if (count < 0 || static_cast<std::int64_t>(i) < count) result.append(to);
      if (i + 1 < starts.size()) result.append(text, starts[i], starts[i + 1]);
    }
    return result;
  }
  for (std::size_t at = text.bytes.find(from); at != std::string::npos && count != 0;
       at = text.bytes.find(from, done)) {
    result.append(text, done, at);
    result.append(to);
    done = at + from.size();
    --count;
  }
  result.append(text, done, text.bytes.size());
  return result;
}

std::vector<Text> split(const Text& text, std::string_view separator, std::int64_t limit) {
  if (separator.empty()) return split_at_space(text, limit);
  std::vector<Text> parts;
  std::size_t done = 0;
  for (std::size_t at = text.bytes.find(separator); at != std::string::npos;
       at = text.bytes.find(separator, done)) {
    if (limit >= 0 && static_cast<std::int64_t>(parts.size()) == limit) break;
    parts.push_back(text.sub(done, at));
    done = at + separator.size();
  }
  parts.push_back(text.sub(done, text.bytes.size()));
  return parts;
}

std::vector<Text> split_from_right(const Text& text, std::string_view separator, std::int64_t limit) {
  std::vector<Text> parts;
  std::size_t end = text.bytes.size();
  while (limit < 0 || static_cast<std::int64_t>(parts.size()) < limit) {
    if (end < separator.size()) break;
    const std::size_t at = text.bytes.rfind(separator, end - separator.size());
    if (at == std::string::npos) break;
    parts.push_back(text.sub(at + separator.size(), end));
    end = at;
  }
  parts.push_back(text.sub(0, end));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<Text> split_lines(const Text& text) {
  std::vector<Text> lines;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.bytes.size();) {
    const CodePoint c = code_point_at(text.bytes, at);
    std::size_t next = at + c.length;
    const bool ends = (c.value >= 0x0A && c.value <= 0x0D) || (c.value >= 0x1C && c.value <= 0x1E) ||
                      c.value == 0x85 || c.value == 0x2028 || c.value == 0x2029;
    if (ends) {
      lines.push_back(text.sub(begin, at));
      if (c.value == U'\r' && next < text.bytes.size() && text.bytes[next] == '\n') ++next;
      begin = next;
    }
    at = next;
  }
  if (begin < text.bytes.size()) lines.push_back(text.sub(begin, text.bytes.size()));
  return lines;
}

}  // namespace tagalong::tokenizer::jinja
