// oea+ranks: OEA for experts spread over ranks, where the slowest rank sets the pace.
//
// The cost of a step is the largest number of distinct experts on any rank. After the votes, every other rank
// is filled up to the level of the fullest (or to `per_rank`, if that is higher) with the experts of that
// rank the batch misses most: their time is hidden behind the fullest rank. Without a placement all is one
// rank.
#include <algorithm>
#include <array>

#include "routing/oea.h"
#include "routing/policy_methods.h"

namespace tagalong::routing {

namespace {

constexpr std::string_view kNeeded[] = {"k0"};
constexpr std::string_view kOptional[] = {"p",           "k_max",      "max_rank", "min_rows",
                                          "k0_by_layer", "k0_by_rows", "per_rank"};

int rank_of_expert(const PolicyStep& step, int id) {
  return step.input.placement == nullptr ? 0 : step.input.placement->rank_of[static_cast<std::size_t>(id)];
}

void choose(const PolicyStep& step) {
  vote(step);
  const int ranks = step.input.placement == nullptr ? 1 : step.input.placement->ranks;
  std::array<std::int32_t, kMaxRanks> held{};
  for_each_expert(step.base(), [&](int id) { ++held[static_cast<std::size_t>(rank_of_expert(step, id))]; });
  const int level = std::max(step.policy.per_rank, *std::max_element(held.begin(), held.begin() + ranks));

  sum_gate_weights(step, step.values());
  const std::span<std::uint64_t> values = step.values();
  // Experts whose rank is full are worth nothing more; each round adds the best of the rest.
  while (true) {
    int best = -1;
    for (int id = 0; id < step.spec.experts; ++id) {
      const std::uint64_t value = values[static_cast<std::size_t>(id)];
      if (value == 0 || contains(step.base(), id)) continue;
      if (held[static_cast<std::size_t>(rank_of_expert(step, id))] >= level) continue;
      if (best < 0 || value > values[static_cast<std::size_t>(best)]) best = id;
    }
    if (best < 0) return;
    insert(step.base(), best);
    ++held[static_cast<std::size_t>(rank_of_expert(step, best))];
  }
}

}  // namespace

const PolicyMethod kOeaRanksMethod = {
    .kind = PolicyKind::kOeaRanks,
    .name = "oea+ranks",
    .summary = "oea, then every rank filled to the level of the fullest",
    .needed_keys = kNeeded,
    .optional_keys = kOptional,
    .min_rows = 2,
    .shape = PolicyMethod::Shape::kBaseSet,
    .is_exact = votes_everything,
    .choose = choose,
    .example = "oea+ranks:k0=2",
    .check = check_votes,
};

}  // namespace tagalong::routing
