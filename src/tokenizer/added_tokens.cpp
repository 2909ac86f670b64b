#include "tokenizer/added_tokens.h"

#include <algorithm>
#include <map>

#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"

namespace tagalong::tokenizer {
namespace {

bool is_space(char32_t c) { return CodePointTable::instance().is(c, kSpaces); }

bool is_word(char32_t c) {
  constexpr ClassSet kWord = kLetters | kMarks | set_of(CharClass::digit);
  // Connector punctuation.
  return CodePointTable::instance().is(c, kWord) || c == U'_' || c == 0x203F || c == 0x2040 || c == 0x2054 ||
         c == 0xFE33 || c == 0xFE34 || (c >= 0xFE4D && c <= 0xFE4F) || c == 0xFF3F;
}

bool touches_word(std::string_view text, TextRange range) {
  if (range.begin > 0 && is_word(code_point_before(text, range.begin).value)) return true;
  return range.end < text.size() && is_word(code_point_at(text, range.end).value);
}

}  // namespace

bool AddedToken::is_control() const {
  if (special) return true;
  for (std::size_t at = 0; at < content.size();) {
    const CodePoint c = code_point_at(content, at);
    if (!is_space(c.value)) return true;
    at += c.length;
  }
  return false;
}

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens, const std::vector<std::string>& patterns)
    : tokens_(std::move(tokens)) {
  std::vector<std::map<std::uint8_t, std::uint32_t>> children(1);
  nodes_.resize(1);
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    if (patterns[i].empty()) continue;
    std::uint32_t node = 0;
    for (const char c : patterns[i]) {
      const auto [edge, is_new] =
          children[node].emplace(static_cast<std::uint8_t>(c), static_cast<std::uint32_t>(nodes_.size()));
      node = edge->second;
      if (is_new) {
        nodes_.emplace_back();
        children.emplace_back();
      }
    }
    nodes_[node].token = static_cast<std::int32_t>(i);
  }
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    nodes_[node].first_edge = static_cast<std::uint32_t>(edges_.size());
    nodes_[node].edge_count = static_cast<std::uint32_t>(children[node].size());
    for (const auto& [byte, child] : children[node]) edges_.push_back({byte, child});
  }
  for (const auto& [byte, child] : children[0]) starts_[byte] = true;
}

std::uint32_t AddedTokenMatcher::step(std::uint32_t node, std::uint8_t byte) const {
  const Edge* first = edges_.data() + nodes_[node].first_edge;
  const Edge* last = first + nodes_[node].edge_count;
  const Edge* edge =
      std::lower_bound(first, last, byte, [](const Edge& e, std::uint8_t b) { return e.byte < b; });
  return edge != last && edge->byte == byte ? edge->node : 0;
}

const AddedToken* AddedTokenMatcher::longest(std::string_view text, std::size_t at, const Allowed& allowed,
                                             std::size_t& end) const {
  const AddedToken* best = nullptr;
  std::uint32_t node = 0;
  for (std::size_t i = at; i < text.size(); ++i) {
    node = step(node, static_cast<std::uint8_t>(text[i]));
    if (node == 0) break;
    if (nodes_[node].token < 0) continue;
    const AddedToken& token = tokens_[static_cast<std::size_t>(nodes_[node].token)];
    if (allowed && !allowed(token, {at, i + 1})) continue;
    best = &token;
    end = i + 1;
  }
  return best;
}

void AddedTokenMatcher::find(std::string_view text, const Allowed& allowed, std::vector<Found>& out) const {
  std::size_t covered = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (!starts_[static_cast<std::uint8_t>(text[at])]) {
      ++at;
      continue;
    }
    std::size_t end = 0;
    const AddedToken* token = longest(text, at, allowed, end);
    if (token == nullptr) {
      ++at;
      continue;
    }
    TextRange range{at, end};
    at = end;
    // As in the reference, a match that touches a word is passed over whole; a shorter one is not tried.
    if (token->single_word && touches_word(text, range)) continue;
    while (token->lstrip && range.begin > covered) {
      const CodePoint before = code_point_before(text, range.begin);
      if (!is_space(before.value)) break;
      range.begin -= before.length;
    }
    while (token->rstrip && range.end < text.size()) {
      const CodePoint after = code_point_at(text, range.end);
      if (!is_space(after.value)) break;
      range.end += after.length;
    }
    if (range.begin > covered) out.push_back({-1, {covered, range.begin}});
    out.push_back({token->id, range});
    covered = at = range.end;
  }
  if (covered < text.size()) out.push_back({-1, {covered, text.size()}});
}

}  // namespace tagalong::tokenizer
