// The invariants of routing, each over random problems and, where it concerns all, over the whole policy
// list.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "routing/route_testing.h"

namespace tagalong::routing {
namespace {

ProblemMaker any_maker() { return ProblemMaker(*rc::gen::arbitrary<std::uint32_t>()); }
int any_rows() { return *rc::gen::inRange(0, 40); }

std::set<int> routed_experts(const RoutePlan& plan, const RouterSpec& spec) {
  std::set<int> experts;
  for (const int id : plan.active_experts()) {
    if (id < spec.experts) experts.insert(id);
  }
  return experts;
}

RC_GTEST_PROP(RouteProperty, PlanIsWellFormed, ()) {
  ProblemMaker maker = any_maker();
  const Problem problem = maker.problem(any_rows());
  for (const RoutingPolicy& policy : policies_for(problem.spec)) {
    const RoutePlan plan = route_problem(problem, policy);
    std::map<int, std::vector<std::pair<int, float>>> by_expert;
    for (int row = 0; row < plan.rows; ++row) {
      const std::vector<int> ids = ids_of(plan, row);
      RC_ASSERT(std::set<int>(ids.begin(), ids.end()).size() == ids.size());
      if (problem.roles[static_cast<std::size_t>(row)] == RowRole::kPadding) RC_ASSERT(ids.empty());
      for (std::size_t i = 0; i < ids.size(); ++i) {
        const float weight = plan.weights_of(row)[i];
        RC_ASSERT(ids[i] >= 0 && ids[i] < plan.experts);
        RC_ASSERT(std::isfinite(weight) && weight >= 0.0F);
        if (ids[i] >= problem.spec.experts) RC_ASSERT(weight == 1.0F);
        by_expert[ids[i]].emplace_back(row, weight);
      }
      for (std::size_t slot = ids.size(); slot < static_cast<std::size_t>(plan.slots); ++slot) {
        const std::size_t at = static_cast<std::size_t>(row) * static_cast<std::size_t>(plan.slots) + slot;
        RC_ASSERT(plan.row_ids[at] == -1 && plan.row_weights[at] == 0.0F);
      }
    }
    RC_ASSERT(by_expert.size() == static_cast<std::size_t>(plan.active_count));
    int index = 0;
    for (const auto& [expert, entries] : by_expert) {
      RC_ASSERT(plan.active_experts()[static_cast<std::size_t>(index)] == expert);
      const auto found = plan.entries_of(index++);
      RC_ASSERT(found.size() == entries.size());
      for (std::size_t i = 0; i < entries.size(); ++i) {
        RC_ASSERT(found[i].row == entries[i].first && found[i].weight == entries[i].second);
      }
    }
    RC_ASSERT(plan.stats.experts == static_cast<int>(routed_experts(plan, problem.spec).size()));
  }
}

RC_GTEST_PROP(RouteProperty, OrderOfRowsDoesNotMatter, ()) {
  ProblemMaker maker = any_maker();
  const Problem problem = maker.problem(any_rows());
  std::vector<int> order(problem.roles.size());
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[static_cast<std::size_t>(maker.below(static_cast<int>(i)))]);
  }
  Problem shuffled{.spec = problem.spec, .logits = {}, .roles = {}};
  for (const int row : order)
    shuffled.add_row(problem.row(row), problem.roles[static_cast<std::size_t>(row)]);
  for (const RoutingPolicy& policy : policies_for(problem.spec)) {
    const RoutePlan plan = route_problem(problem, policy);
    const RoutePlan other = route_problem(shuffled, policy);
    for (std::size_t i = 0; i < order.size(); ++i) {
      RC_ASSERT(bits_of(plan, order[i]) == bits_of(other, static_cast<int>(i)));
    }
  }
}

RC_GTEST_PROP(RouteProperty, PaddingChangesNothing, ()) {
  ProblemMaker maker = any_maker();
  const Problem problem = maker.problem(any_rows());
  Problem padded{.spec = problem.spec, .logits = {}, .roles = {}};
  std::vector<int> place;
  for (int row = 0; row < problem.rows(); ++row) {
    while (maker.one_in(3)) padded.add_row(maker.row(problem.spec.experts), RowRole::kPadding);
    place.push_back(padded.rows());
    padded.add_row(problem.row(row), problem.roles[static_cast<std::size_t>(row)]);
  }
  for (const RoutingPolicy& policy : policies_for(problem.spec)) {
    const RoutePlan plan = route_problem(problem, policy);
    const RoutePlan other = route_problem(padded, policy);
    for (int row = 0; row < problem.rows(); ++row) {
      RC_ASSERT(bits_of(plan, row) == bits_of(other, place[static_cast<std::size_t>(row)]));
    }
    RC_ASSERT(plan.stats.experts == other.stats.experts);
    RC_ASSERT(plan.stats.kept_mass == other.stats.kept_mass);
  }
}

RC_GTEST_PROP(RouteProperty, ExactRowsAreExactUnderEveryPolicy, ()) {
  ProblemMaker maker = any_maker();
  const Problem problem = maker.problem(any_rows());
  const RoutePlan exact = route_problem(problem, {});
  for (const RoutingPolicy& policy : policies_for(problem.spec)) {
    const RoutePlan plan = route_problem(problem, policy);
    RC_ASSERT(plan.stats.experts_exact == exact.stats.experts);
    for (int row = 0; row < problem.rows(); ++row) {
      const RowRole role = problem.roles[static_cast<std::size_t>(row)];
      if (role == RowRole::kPrefill || role == RowRole::kPinnedExact) {
        RC_ASSERT(bits_of(plan, row) == bits_of(exact, row));
      }
    }
  }
}

RC_GTEST_PROP(RouteProperty, ExactRowsDoNotSeeEachOther, ()) {
  ProblemMaker maker = any_maker();
  const Problem problem = maker.problem(any_rows());
  const RoutePlan together = route_problem(problem, {});
  for (int row = 0; row < problem.rows(); ++row) {
    Problem alone{.spec = problem.spec, .logits = {}, .roles = {}};
    alone.add_row(problem.row(row), problem.roles[static_cast<std::size_t>(row)]);
    RC_ASSERT(bits_of(together, row) == bits_of(route_problem(alone, {}), 0));
  }
}

RC_GTEST_PROP(RouteProperty, KnobsThatAreOffAreExactToTheBit, ()) {
  ProblemMaker maker = any_maker();
  const Problem problem = maker.problem(any_rows());
  const RoutePlan exact = route_problem(problem, {});
  std::vector<RoutingPolicy> off;
  for (const char* text :
       {"oea:k0=64", "oea+budget:k0=64,budget=4096", "oea+ranks:k0=64", "xshare:budget=4096", "lynx:drop=0",
        "ser:k_min=64,t=0.5", "ser:k_min=1,t=0", "topp:p=1", "pruned:k0=64", "random-set:k0=64",
        "oea:k0=1,k0_by_layer=64", "oea:k0=1,k0_by_rows=1:64"}) {
    RoutingPolicy policy = parse_policy(text);
    if (policy.budget != 0) policy.budget = problem.spec.experts;
    if (policy.k_min != 0) policy.k_min = std::min(policy.k_min, problem.spec.top_k);
    off.push_back(policy);
  }
  for (RoutingPolicy policy : policies_for(problem.spec)) {
    if (policy.k_max != 0) continue;  // changes the stride of the plan even when it does nothing
    policy.min_rows = problem.rows() + 1;
    off.push_back(policy);
  }
  for (const RoutingPolicy& policy : off) {
    const RoutePlan plan = route_problem(problem, policy);
    for (int row = 0; row < problem.rows(); ++row) RC_ASSERT(bits_of(plan, row) == bits_of(exact, row));
    RC_ASSERT(plan.stats.replaced_slots == 0 && plan.stats.short_rows == 0 && plan.stats.kept_mass == 1.0);
    RC_ASSERT(plan.active_count == exact.active_count && plan.entry_count() == exact.entry_count());
  }
}

RC_GTEST_PROP(RouteProperty, NothingOfAnEarlierCallRemains, ()) {
  ProblemMaker maker = any_maker();
  const Problem first = maker.problem(any_rows());
  const Problem second = maker.problem(any_rows());
  RouteScratch scratch;
  RoutePlan plan;
  for (const Problem* problem : {&first, &second}) {
    for (const RoutingPolicy& policy : policies_for(problem->spec)) {
      scratch.reserve(40, problem->spec, policy);
      plan.reserve(40, problem->spec, policy);
    }
  }
  for (const RoutingPolicy& policy : policies_for(first.spec)) {
    route(first.logits, first.spec, policy, first.roles, scratch, plan);
    for (const RoutingPolicy& other : policies_for(second.spec)) {
      std::ranges::fill(plan.row_ids, 0x55555555);
      std::ranges::fill(plan.row_weights, std::numeric_limits<float>::quiet_NaN());
      std::ranges::fill(plan.entries, PlanEntry{0x55555555, std::numeric_limits<float>::quiet_NaN()});
      route(second.logits, second.spec, other, second.roles, scratch, plan);
      const RoutePlan fresh = route_problem(second, other);
      const auto used = static_cast<std::size_t>(fresh.rows) * static_cast<std::size_t>(fresh.slots);
      RC_ASSERT(std::equal(fresh.row_ids.begin(), fresh.row_ids.begin() + static_cast<std::ptrdiff_t>(used),
                           plan.row_ids.begin()));
      for (int row = 0; row < fresh.rows; ++row) RC_ASSERT(bits_of(fresh, row) == bits_of(plan, row));
    }
    break;  // one policy is enough to leave something behind; the list matters for the second call
  }
}

RC_GTEST_PROP(RouteProperty, NoRowIsLeftWithoutItsGuarantee, ()) {
  ProblemMaker maker = any_maker();
  const Problem problem = maker.problem(any_rows());
  const RoutePlan exact = route_problem(problem, {});
  for (const RoutingPolicy& policy : policies_for(problem.spec)) {
    const bool votes = policy.kind == PolicyKind::kOea || policy.kind == PolicyKind::kOeaBudget ||
                       policy.kind == PolicyKind::kOeaRanks || policy.kind == PolicyKind::kPruned;
    if (!votes || policy.p < 1.0F) continue;
    const RoutePlan plan = route_problem(problem, policy);
    const int k0 = votes_per_row(policy, 0, exact.stats.decode_rows);
    for (int row = 0; row < problem.rows(); ++row) {
      if (problem.roles[static_cast<std::size_t>(row)] != RowRole::kDecode) continue;
      for (int i = 0; i < std::min(k0, problem.spec.top_k); ++i) {
        RC_ASSERT(ids_of(plan, row)[static_cast<std::size_t>(i)] ==
                  ids_of(exact, row)[static_cast<std::size_t>(i)]);
      }
    }
  }
}

// Simplified OEA written as the definition reads, over the rankings exact routing gives for k = all a row may
// use.
RC_GTEST_PROP(RouteProperty, OeaIsItsDefinition, ()) {
  ProblemMaker maker = any_maker();
  Problem problem = maker.problem(any_rows(), true);
  const int k0 = 1 + maker.below(problem.spec.top_k);
  Problem ranking = problem;
  ranking.spec.top_k =
      std::min(kMaxTopK, problem.spec.experts / problem.spec.groups * problem.spec.topk_groups);
  const RoutePlan ranked = route_problem(ranking, {});
  std::set<int> base;
  for (int row = 0; row < problem.rows(); ++row) {
    for (int i = 0; i < k0; ++i) base.insert(ids_of(ranked, row)[static_cast<std::size_t>(i)]);
  }
  RoutingPolicy policy{.kind = PolicyKind::kOea, .k0 = k0};
  const RoutePlan plan = route_problem(problem, policy);
  RC_ASSERT(problem.rows() == 0 || routed_experts(plan, problem.spec) == base);
  for (int row = 0; row < problem.rows(); ++row) {
    std::vector<int> expected;
    for (const int id : ids_of(ranked, row)) {
      if (id < problem.spec.experts && base.contains(id) &&
          static_cast<int>(expected.size()) < problem.spec.top_k) {
        expected.push_back(id);
      }
    }
    std::vector<int> found = ids_of(plan, row);
    found.resize(found.size() - static_cast<std::size_t>(problem.spec.fused_shared_experts));
    // The ranking is cut at kMaxTopK; what it holds must be the head of what was found.
    RC_ASSERT(found.size() >= expected.size());
    RC_ASSERT(std::equal(expected.begin(), expected.end(), found.begin()));
    if (ranking.spec.top_k < kMaxTopK) RC_ASSERT(found.size() == expected.size());
  }
}

RC_GTEST_PROP(RouteProperty, OeaExpertsGrowWithVotesAndRows, ()) {
  ProblemMaker maker = any_maker();
  Problem problem = maker.problem(any_rows(), true);
  std::set<int> smaller;
  for (int k0 = 1; k0 <= problem.spec.top_k; ++k0) {
    const RoutingPolicy policy{.kind = PolicyKind::kOea, .k0 = k0};
    const RoutePlan plan = route_problem(problem, policy);
    const std::set<int> experts = routed_experts(plan, problem.spec);
    RC_ASSERT(std::ranges::includes(experts, smaller));
    RC_ASSERT(plan.stats.experts <= plan.stats.experts_exact);
    Problem larger = problem;
    larger.add_row(maker.row(problem.spec.experts), RowRole::kDecode);
    RC_ASSERT(std::ranges::includes(routed_experts(route_problem(larger, policy), problem.spec), experts));
    smaller = experts;
  }
}

RC_GTEST_PROP(RouteProperty, BudgetsHold, ()) {
  ProblemMaker maker = any_maker();
  const Problem problem = maker.problem(2 + any_rows(), true);
  const int budget = problem.spec.top_k + maker.below(problem.spec.experts - problem.spec.top_k + 1);
  const int votes = route_problem(problem, {.kind = PolicyKind::kOea, .k0 = 1}).stats.experts;
  const RoutePlan guaranteed =
      route_problem(problem, {.kind = PolicyKind::kOeaBudget, .k0 = 1, .budget = budget});
  RC_ASSERT(guaranteed.stats.experts <= std::max(budget, votes));
  RC_ASSERT(guaranteed.stats.experts >= votes || problem.spec.top_k == 1);
  RC_ASSERT(route_problem(problem, {.kind = PolicyKind::kXshare, .budget = budget}).stats.experts <= budget);
  const RoutePlan lynx = route_problem(problem, {.kind = PolicyKind::kLynx, .drop = 3});
  RC_ASSERT(lynx.stats.experts <= std::max(problem.spec.top_k, lynx.stats.experts_exact - 3));
  RC_ASSERT(route_problem(problem, {.kind = PolicyKind::kRandomSet, .k0 = 1}).stats.experts <= votes ||
            problem.spec.top_k == 1);
}

// Filling ranks costs nothing on the fullest one, and never takes an expert away.
RC_GTEST_PROP(RouteProperty, FilledRanksStayBelowTheFullest, ()) {
  ProblemMaker maker = any_maker();
  const Problem problem = maker.problem(2 + any_rows(), true);
  const Placement placement = contiguous_placement(problem.spec.experts, 1 + maker.below(8));
  validate(placement, problem.spec, "placement");
  const RoutingPolicy oea{.kind = PolicyKind::kOea, .k0 = 1};
  const RoutingPolicy ranks{.kind = PolicyKind::kOeaRanks, .k0 = 1};
  RouteScratch scratch;
  RoutePlan plan;
  scratch.reserve(problem.rows(), problem.spec, ranks);
  plan.reserve(problem.rows(), problem.spec, ranks);
  const RouteInput input{.logits = problem.logits, .roles = problem.roles, .placement = &placement};
  route(input, problem.spec, oea, scratch, plan);
  const RouteStats voted = plan.stats;
  route(input, problem.spec, ranks, scratch, plan);
  RC_ASSERT(plan.stats.fullest_rank == voted.fullest_rank);
  RC_ASSERT(plan.stats.fullest_rank <= plan.stats.fullest_rank_exact);
  RC_ASSERT(plan.stats.replaced_slots <= voted.replaced_slots);
}

RC_GTEST_PROP(RouteProperty, PolicyStringsComeBack, ()) {
  ProblemMaker maker = any_maker();
  for (const RoutingPolicy& policy : policies_for(maker.spec())) {
    RC_ASSERT(parse_policy(to_string(policy)) == policy);
  }
}

}  // namespace
}  // namespace tagalong::routing
