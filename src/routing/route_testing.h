// Random routing problems for the tests of this room. Every draw comes from the case's seed.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "routing/policy_list.h"
#include "routing/route.h"

namespace tagalong::routing {

struct Problem {
  RouterSpec spec;
  std::vector<float> logits;
  std::vector<RowRole> roles;

  int rows() const { return static_cast<int>(roles.size()); }
  std::vector<float> row(int r) const {
    const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(r) * spec.experts;
    return {begin, begin + spec.experts};
  }
  void add_row(const std::vector<float>& row, RowRole role) {
    logits.insert(logits.end(), row.begin(), row.end());
    roles.push_back(role);
  }
};

class ProblemMaker {
 public:
  explicit ProblemMaker(std::uint32_t seed) : random_(seed) {}

  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint32_t>(n)); }
  bool one_in(int n) { return below(n) == 0; }
  float normal(float mean, float deviation) {
    return std::normal_distribution<float>(mean, deviation)(random_);
  }

  RouterSpec spec() {
    static constexpr int kExperts[] = {1,  2,  3,  4,  5,  8,  12,  16,  17,  31, 32,
                                       33, 60, 64, 65, 72, 96, 128, 160, 256, 384};
    RouterSpec spec;
    spec.experts = kExperts[below(static_cast<int>(std::size(kExperts)))];
    spec.top_k = 1 + below(std::min(spec.experts, 10));
    spec.scoring = static_cast<Scoring>(below(5));
    spec.renormalise = spec.scoring != Scoring::kSigmoidInput && !one_in(3);
    spec.scaling = one_in(2) ? 1.0F : 2.5F;
    spec.fused_shared_experts = one_in(4) ? 1 + below(2) : 0;
    const bool ranks_logits =
        spec.scoring == Scoring::kTopKThenSoftmax || spec.scoring == Scoring::kSigmoidInput;
    if (!ranks_logits && one_in(2)) {
      const float centre = one_in(2) ? 0.0F : 6.9F;
      for (int i = 0; i < spec.experts; ++i) spec.correction_bias.push_back(normal(centre, 0.1F));
    }
    for (int groups : {8, 4, 3, 2}) {
      if (spec.experts % groups != 0 || one_in(2)) continue;
      const int size = spec.experts / groups;
      spec.groups = groups;
      spec.topk_groups = std::min(groups, (spec.top_k + size - 1) / size + below(2));
      spec.group_score = ranks_logits || size < 2 || one_in(2) ? GroupScore::kMax : GroupScore::kSumOfTopTwo;
      break;
    }
    return spec;
  }

  // Logits of one row: smooth, in coarse steps (ties), far below zero, or with numbers that are not finite.
  std::vector<float> row(int experts) {
    const int kind = below(10);
    std::vector<float> row(static_cast<std::size_t>(experts));
    for (float& l : row) {
      l = normal(kind == 0 ? -20.0F : 0.0F, 2.0F);
      if (kind == 1 || kind == 2) l = std::round(l);
      if (kind == 3 && one_in(8)) l = std::numeric_limits<float>::infinity() * (one_in(2) ? 1.0F : -1.0F);
      if (kind == 4 && one_in(4)) l = std::numeric_limits<float>::quiet_NaN();
      if (kind == 5) l *= 30.0F;
    }
    if (kind == 6 && one_in(2)) std::ranges::fill(row, std::numeric_limits<float>::quiet_NaN());
    return row;
  }

  Problem problem(int rows, bool all_decode = false) {
    Problem problem{.spec = spec(), .logits = {}, .roles = {}};
    for (int r = 0; r < rows; ++r) {
      problem.add_row(row(problem.spec.experts),
                      all_decode || !one_in(4) ? RowRole::kDecode : static_cast<RowRole>(below(4)));
    }
    return problem;
  }

 private:
  std::mt19937 random_;
};

inline RoutePlan route_problem(const Problem& problem, const RoutingPolicy& policy,
                               RouteIsa isa = RouteIsa::kBest) {
  RouteScratch scratch(isa);
  RoutePlan plan;
  scratch.reserve(problem.rows(), problem.spec, policy);
  plan.reserve(problem.rows(), problem.spec, policy);
  route(problem.logits, problem.spec, policy, problem.roles, scratch, plan);
  return plan;
}

inline std::vector<int> ids_of(const RoutePlan& plan, int row) {
  return {plan.ids_of(row).begin(), plan.ids_of(row).end()};
}

// Ids and weights of a row, for comparisons to the last bit.
inline std::vector<std::pair<int, std::uint32_t>> bits_of(const RoutePlan& plan, int row) {
  std::vector<std::pair<int, std::uint32_t>> bits;
  for (std::size_t i = 0; i < plan.ids_of(row).size(); ++i) {
    bits.emplace_back(plan.ids_of(row)[i], std::bit_cast<std::uint32_t>(plan.weights_of(row)[i]));
  }
  return bits;
}

// Every policy of the list, with its example and with knobs that stay inside what any layer allows.
inline std::vector<RoutingPolicy> policies_for(const RouterSpec& spec) {
  std::vector<RoutingPolicy> policies;
  const auto try_policy = [&](RoutingPolicy policy) {
    if (policy.budget != 0) policy.budget = std::clamp(policy.budget, spec.top_k, spec.experts);
    if (policy.k_min != 0) policy.k_min = std::min(policy.k_min, spec.top_k);
    policy.top_per_token = std::min(policy.top_per_token, spec.top_k);
    if (policy.k0 != 0) policy.k0 = std::min(policy.k0, spec.top_k);
    if (policy.k_max != 0) policy.k_max = std::clamp(policy.k_max, policy.k0, spec.experts);
    if (policy.max_rank != 0) policy.max_rank = std::clamp(policy.max_rank, policy.k0, spec.experts);
    validate(policy, spec, "test layer");
    policies.push_back(policy);
  };
  for (const PolicyMethod* method : policy_list()) try_policy(parse_policy(method->example));
  for (const char* text :
       {"oea:k0=1,min_rows=1", "oea:k0=3,p=0.5", "oea:k0=2,k_max=12", "oea:k0=1,max_rank=9",
        "oea:k0=2,k_max=2,min_rows=1", "oea:k0=4,k0_by_rows=2:3/6:1", "oea+budget:k0=1,budget=10",
        "xshare:budget=10,top_per_token=2", "lynx:drop=2", "ser:k_min=2,t=0.9", "topp:p=0.3",
        "random-set:k0=1,seed=7"}) {
    try_policy(parse_policy(text));
  }
  return policies;
}

}  // namespace tagalong::routing
