// Added tokens: texts that become one id wherever they stand, before anything else looks at the text.
//
// Immutable after construction: any thread. Matching is leftmost-longest, without overlap.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/aligned_text.h"

namespace tagalong::tokenizer {

struct AddedToken {
  std::int32_t id = -1;
  std::string content;
  bool special = false;      // left out by decode with skip_special
  bool normalized = false;   // looked for in the normalised text
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // and after it
  bool single_word = false;  // only where no word character touches it

  // Control tokens steer the model; runs of blanks that happen to be added tokens do not.
  bool is_control() const;
};

class AddedTokenMatcher {
 public:
  struct Found {
    std::int32_t id;  // -1: text between two tokens
    TextRange range;
  };
  // Says whether a token may match in this range of the text.
  using Allowed = std::function<bool(const AddedToken&, TextRange)>;

  // `patterns` are the texts to look for, one for each token; empty ones never match.
  AddedTokenMatcher(std::vector<AddedToken> tokens, const std::vector<std::string>& patterns);

  bool empty() const { return tokens_.empty(); }
  // Tokens and the text between them, in order and covering the text. `allowed` may be empty: all are.
  void find(std::string_view text, const Allowed& allowed, std::vector<Found>& out) const;

 private:
  struct Edge {
    std::uint8_t byte;
    std::uint32_t node;
  };
  struct Node {
    std::uint32_t first_edge = 0;
    std::uint32_t edge_count = 0;
    std::int32_t token = -1;  // index into tokens_
  };

  // The node that `byte` leads to, or 0.
  std::uint32_t step(std::uint32_t node, std::uint8_t byte) const;
  // The longest allowed token that begins at `at`, or null; `end` is where it ends.
  const AddedToken* longest(std::string_view text, std::size_t at, const Allowed& allowed,
                            std::size_t& end) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  std::array<bool, 256> starts_{};
};

}  // namespace tagalong::tokenizer
