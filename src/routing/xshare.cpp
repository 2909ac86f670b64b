// xshare: the base set is the experts with the largest score summed over the batch (XShare, arXiv
// 2602.07265).
//
// No row is guaranteed anything: a row whose experts nobody shares is served by others' favourites. Padding
// and exact rows do not add to the sums, and the experts of exact rows count towards the budget.
#include <algorithm>

#include "base/error.h"
#include "routing/oea.h"
#include "routing/policy_methods.h"

namespace tagalong::routing {

namespace {

constexpr std::string_view kNeeded[] = {"budget"};
constexpr std::string_view kOptional[] = {"top_per_token", "min_rows"};

void choose(const PolicyStep& step) {
  const RoutingPolicy& policy = step.policy;
  const std::span<std::uint64_t> values = step.values();
  std::ranges::fill(values, 0U);
  const auto experts = static_cast<std::size_t>(step.spec.experts);
  for (int row = 0; row < step.rows; ++row) {
    if (!step.is_decode(row)) continue;
    if (policy.top_per_token == 0) {
      const std::span<float> scores(step.scratch.scores.data(), experts);
      step.scratch.kernels->scores(step.spec.scoring, step.logits_of(row).data(), step.spec.experts,
                                   step.scratch.norms[static_cast<std::size_t>(row)], scores.data());
      for (std::size_t id = 0; id < experts; ++id) values[id] += fixed_point(scores[id]);
    } else {
      const std::span<const std::int32_t> best =
          step.exact_of(row).first(static_cast<std::size_t>(policy.top_per_token));
      const std::span<float> scores(step.scratch.scores.data(), best.size());
      scores_of(step, row, best, scores);
      for (std::size_t i = 0; i < best.size(); ++i) {
        values[static_cast<std::size_t>(best[i])] += fixed_point(scores[i]);
      }
    }
  }
  fill_base(step, values, policy.budget);
}

void check(const RoutingPolicy& policy, const RouterSpec& spec, std::string_view name) {
  check_budget(policy, spec, name);
  if (policy.top_per_token > spec.top_k) {
    throw base::input_error("{}: policy '{}': top_per_token = {}, expected 0..{}", name, to_string(policy),
                            policy.top_per_token, spec.top_k);
  }
}

}  // namespace

const PolicyMethod kXshareMethod = {
    .kind = PolicyKind::kXshare,
    .name = "xshare",
    .summary = "the experts with the largest batch-summed score, up to a budget",
    .needed_keys = kNeeded,
    .optional_keys = kOptional,
    .min_rows = 2,
    .shape = PolicyMethod::Shape::kBaseSet,
    .is_exact = [](const PolicyStep& step) { return step.policy.budget >= step.spec.experts; },
    .choose = choose,
    .example = "xshare:budget=24",
    .check = check,
};

}  // namespace tagalong::routing
