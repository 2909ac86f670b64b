// What a reply is made of, and what the parsers of replies share. Plain data and pure functions; any thread.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace tagalong::tokenizer {

struct ReplyPart {
  enum class Kind { reasoning, content, call };
  Kind kind;
  std::string text;       // of a call: the function's name
  std::string arguments;  // of a call: a JSON object
  bool operator==(const ReplyPart&) const = default;
};

// Where in its own syntax a reply begins: a prompt may have begun it.
enum class ReplyStart { reply, inside_reasoning, inside_content };

// Appends text, to the last part if that is of the same kind.
inline void append_text(ReplyPart::Kind kind, std::string_view text, std::vector<ReplyPart>& out) {
  if (text.empty()) return;
  if (!out.empty() && out.back().kind == kind) {
    out.back().text += text;
  } else {
    out.push_back({kind, std::string(text), {}});
  }
}

// How many bytes at the end of the text may be the beginning of the marker.
inline std::size_t partial_marker(std::string_view text, std::string_view marker) {
  if (marker.empty()) return 0;
  for (std::size_t size = std::min(text.size(), marker.size() - 1); size > 0; --size) {
    if (text.ends_with(marker.substr(0, size))) return size;
  }
  return 0;
}

struct FoundMarker {
  std::size_t at = std::string_view::npos;
  std::string_view marker;  // empty: none was found
};

// The first of the markers in the text from `from` on; empty markers are not looked for.
template <typename Markers>
FoundMarker find_first_marker(std::string_view text, const Markers& markers, std::size_t from = 0) {
  FoundMarker first;
  for (const std::string_view marker : markers) {
    if (marker.empty()) continue;
    const std::size_t at = text.find(marker, from);
    if (at < first.at) first = {at, marker};
  }
  return first;
}

// How many bytes at the end of the text may be the beginning of one of the markers.
template <typename Markers>
std::size_t longest_partial_marker(std::string_view text, const Markers& markers) {
  std::size_t held = 0;
  for (const std::string_view marker : markers) held = std::max(held, partial_marker(text, marker));
  return held;
}

}  // namespace tagalong::tokenizer
