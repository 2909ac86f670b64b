#include "routing/placement.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace tagalong::routing {

Placement contiguous_placement(int experts, int ranks) {
  Placement placement{.ranks = ranks};
  for (int rank = 0; rank < ranks; ++rank) {
    const int size = experts / ranks + static_cast<int>(rank < experts % ranks);
    placement.rank_of.insert(placement.rank_of.end(), static_cast<std::size_t>(size), rank);
  }
  return placement;
}

void validate(const Placement& placement, const RouterSpec& spec, std::string_view name) {
  if (placement.ranks < 1 || placement.ranks > kMaxRanks) {
    throw base::input_error("{}: ranks = {}, expected 1..{}", name, placement.ranks, kMaxRanks);
  }
  if (placement.rank_of.size() != static_cast<std::size_t>(spec.experts)) {
    throw base::input_error("{}: rank_of has {} values, expected experts = {}", name,
                            placement.rank_of.size(), spec.experts);
  }
  for (std::size_t id = 0; id < placement.rank_of.size(); ++id) {
    if (placement.rank_of[id] < 0 || placement.rank_of[id] >= placement.ranks) {
      throw base::input_error("{}: rank_of[{}] = {}, expected 0..{}", name, id, placement.rank_of[id],
                              placement.ranks - 1);
    }
  }
}

int fullest_rank(const Placement& placement, ConstExpertSet experts) {
  std::array<std::int32_t, kMaxRanks> held{};
  for_each_expert(experts, [&](int id) {
    ++held[static_cast<std::size_t>(placement.rank_of[static_cast<std::size_t>(id)])];
  });
  return *std::max_element(held.begin(), held.begin() + placement.ranks);
}

}  // namespace tagalong::routing
