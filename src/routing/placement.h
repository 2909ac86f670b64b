// Which rank owns each expert, when experts are spread over ranks. Data only: nothing here communicates.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "routing/expert_set.h"
#include "routing/router_spec.h"

namespace tagalong::routing {

inline constexpr int kMaxRanks = 1024;

struct Placement {
  int ranks = 1;
  std::vector<std::int32_t> rank_of{};  // [experts], routed ones
};

// Contiguous blocks of experts, the first ranks one larger where it does not divide.
Placement contiguous_placement(int experts, int ranks);

// Throws base::InputError naming `name`, the field, its value and the range.
void validate(const Placement& placement, const RouterSpec& spec, std::string_view name);

// The largest number of the set's experts on any rank.
int fullest_rank(const Placement& placement, ConstExpertSet experts);

}  // namespace tagalong::routing
