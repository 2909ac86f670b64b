#include "routing/replicas.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>

#include "routing/route_testing.h"

namespace tagalong::routing {
namespace {

struct Copies {
  std::vector<std::vector<std::int32_t>> of_expert;
  Placement placement;
};

// Every expert has one copy, some have more, on ranks drawn at random.
Copies any_copies(ProblemMaker& maker, int experts, int ranks) {
  Copies copies{.of_expert = std::vector<std::vector<std::int32_t>>(static_cast<std::size_t>(experts)),
                .placement = {.ranks = ranks}};
  for (auto& list : copies.of_expert) {
    for (int n = 1 + maker.below(3); n > 0; --n) {
      list.push_back(static_cast<std::int32_t>(copies.placement.rank_of.size()));
      copies.placement.rank_of.push_back(maker.below(ranks));
    }
  }
  return copies;
}

RoutePlan placed(const Problem& problem, const RoutePlan& logical, const ReplicaTable& table,
                 ReplicaRule rule) {
  ReplicaScratch scratch;
  scratch.reserve(table);
  RouterSpec wide = problem.spec;
  wide.experts = table.physical_experts();
  RoutePlan physical;
  physical.reserve(logical.rows, wide);
  place_on_replicas(logical, table, rule, scratch, physical);
  return physical;
}

RC_GTEST_PROP(Replicas, PlansKeepTheirEntries, ()) {
  ProblemMaker maker(*rc::gen::arbitrary<std::uint32_t>());
  const Problem problem = maker.problem(maker.below(30));
  const Copies copies = any_copies(maker, problem.spec.experts, 1 + maker.below(6));
  const ReplicaTable table(copies.of_expert, copies.placement, "table");
  const RoutePlan logical = route_problem(problem, {});
  for (const ReplicaRule rule : {ReplicaRule::kByRow, ReplicaRule::kMetro}) {
    const RoutePlan physical = placed(problem, logical, table, rule);
    RC_ASSERT(physical.entry_count() == logical.entry_count());
    for (int row = 0; row < logical.rows; ++row) {
      const std::vector<int> before = ids_of(logical, row);
      const std::vector<int> after = ids_of(physical, row);
      RC_ASSERT(before.size() == after.size());
      for (std::size_t i = 0; i < before.size(); ++i) {
        RC_ASSERT(physical.weights_of(row)[i] == logical.weights_of(row)[i]);
        if (before[i] >= problem.spec.experts) {
          RC_ASSERT(after[i] - table.physical_experts() == before[i] - problem.spec.experts);
          continue;
        }
        const auto allowed = table.copies_of(before[i]);
        RC_ASSERT(std::ranges::find(allowed, after[i]) != allowed.end());
        if (rule == ReplicaRule::kByRow) {
          RC_ASSERT(after[i] == allowed[static_cast<std::size_t>(row) % allowed.size()]);
        }
      }
    }
    if (rule == ReplicaRule::kMetro) RC_ASSERT(physical.active_count == logical.active_count);
  }
}

// The least possible maximum, found by trying every assignment.
int best_by_trying(const ReplicaTable& table, std::span<const std::int32_t> active, std::vector<int>& load) {
  if (active.empty()) return *std::ranges::max_element(load);
  int best = 1 << 20;
  for (const std::int32_t copy : table.copies_of(active[0])) {
    ++load[static_cast<std::size_t>(table.rank_of(copy))];
    best = std::min(best, best_by_trying(table, active.subspan(1), load));
    --load[static_cast<std::size_t>(table.rank_of(copy))];
  }
  return best;
}

RC_GTEST_PROP(Replicas, MetroIsOptimal, ()) {
  ProblemMaker maker(*rc::gen::arbitrary<std::uint32_t>());
  Problem problem;
  problem.spec.experts = 8;
  problem.spec.top_k = 2;
  for (int row = 1 + maker.below(6); row > 0; --row) problem.add_row(maker.row(8), RowRole::kDecode);
  const Copies copies = any_copies(maker, 8, 1 + maker.below(5));
  const ReplicaTable table(copies.of_expert, copies.placement, "table");
  const RoutePlan logical = route_problem(problem, {});
  std::vector<int> load(static_cast<std::size_t>(table.ranks()), 0);
  const RoutePlan physical = placed(problem, logical, table, ReplicaRule::kMetro);
  RC_ASSERT(physical.stats.fullest_rank == best_by_trying(table, logical.active_experts(), load));
}

}  // namespace
}  // namespace tagalong::routing
