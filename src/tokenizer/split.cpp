#include "tokenizer/split.h"

#include <algorithm>
#include <array>
#include <utility>

namespace tagalong::tokenizer {
namespace {

// Joins each fragment with the one before it where joins(before, fragment) says so.
template <typename Joins>
void join_neighbours(std::vector<Fragment>& fragments, Joins&& joins) {
  std::vector<Fragment> joined;
  for (std::size_t i = 0; i < fragments.size(); ++i) {
    if (i > 0 && joins(fragments[i - 1], fragments[i])) {
      joined.back().end = fragments[i].end;
    } else {
      joined.push_back(fragments[i]);
    }
  }
  fragments = std::move(joined);
}

}  // namespace

SplitBehavior parse_behavior(const JsonView& json) {
  static constexpr std::array<std::pair<std::string_view, SplitBehavior>, 5> kNames = {{
      {"Removed", SplitBehavior::removed},
      {"Isolated", SplitBehavior::isolated},
      {"MergedWithPrevious", SplitBehavior::merged_with_previous},
      {"MergedWithNext", SplitBehavior::merged_with_next},
      {"Contiguous", SplitBehavior::contiguous},
  }};
  for (const auto& [name, behavior] : kNames) {
    if (json.string() == name) return behavior;
  }
  throw base::input_error("{}: unknown behavior \"{}\"", json.path(), json.string());
}

void apply_behavior(SplitBehavior behavior, std::vector<Fragment>& fragments) {
  switch (behavior) {
    case SplitBehavior::isolated:
      return;
    case SplitBehavior::removed:
      std::erase_if(fragments, [](const Fragment& f) { return f.match; });
      return;
    // Of several matches side by side only one is merged with the gap; the others stand alone.
    case SplitBehavior::merged_with_previous:
      return join_neighbours(fragments,
                             [](const Fragment& a, const Fragment& b) { return b.match && !a.match; });
    case SplitBehavior::merged_with_next:
      return join_neighbours(fragments,
                             [](const Fragment& a, const Fragment& b) { return a.match && !b.match; });
    case SplitBehavior::contiguous:
      return join_neighbours(fragments,
                             [](const Fragment& a, const Fragment& b) { return a.match == b.match; });
  }
}

}  // namespace tagalong::tokenizer
