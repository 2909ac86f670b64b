// How a split pattern cuts: the fragments that it makes of a text, and what becomes of the matches.
//
// Pure functions; any thread.
#pragma once

#include <cstddef>
#include <vector>

#include "tokenizer/json_view.h"

namespace tagalong::tokenizer {

// A match or a gap between two. The fragments of a text lie side by side and cover it.
struct Fragment {
  std::size_t begin;
  std::size_t end;
  bool match;
};

enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

SplitBehavior parse_behavior(const JsonView& json);

void apply_behavior(SplitBehavior behavior, std::vector<Fragment>& fragments);

}  // namespace tagalong::tokenizer
