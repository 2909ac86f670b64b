// oea: Opportunistic Expert Activation. Each decode row votes its k0 best experts into the base set; then
// each takes its k best experts of that set, for these are loaded anyway.
#include "routing/oea.h"

#include "base/error.h"
#include "routing/policy_methods.h"

namespace tagalong::routing {

namespace {

constexpr std::string_view kNeeded[] = {"k0"};
constexpr std::string_view kOptional[] = {"p", "k_max", "max_rank", "min_rows", "k0_by_layer", "k0_by_rows"};

}  // namespace

void vote(const PolicyStep& step) {
  for (int row = 0; row < step.rows; ++row) {
    if (!step.is_decode(row)) continue;
    const int votes = experts_holding(step, row, step.policy.p, step.votes);
    for (const std::int32_t id : step.exact_of(row).first(static_cast<std::size_t>(votes)))
      insert(step.base(), id);
  }
}

bool votes_everything(const PolicyStep& step) {
  const int k_max = step.policy.k_max;
  return step.votes >= step.spec.top_k && step.policy.p >= 1.0F && (k_max == 0 || k_max == step.spec.top_k);
}

void check_votes(const RoutingPolicy& policy, const RouterSpec& spec, std::string_view name) {
  const int most_experts = spec.experts < kMaxTopK ? spec.experts : kMaxTopK;
  if (policy.k_max != 0 && (policy.k_max < policy.k0 || policy.k_max > most_experts)) {
    throw base::input_error("{}: policy '{}': k_max = {}, expected 0 or {}..{}", name, to_string(policy),
                            policy.k_max, policy.k0, most_experts);
  }
  if (policy.max_rank != 0 && (policy.max_rank < policy.k0 || policy.max_rank > spec.experts)) {
    throw base::input_error("{}: policy '{}': max_rank = {}, expected 0 or {}..{}", name, to_string(policy),
                            policy.max_rank, policy.k0, spec.experts);
  }
}

void check_budget(const RoutingPolicy& policy, const RouterSpec& spec, std::string_view name) {
  if (policy.budget < spec.top_k || policy.budget > spec.experts) {
    throw base::input_error("{}: policy '{}': budget = {}, expected {}..{}", name, to_string(policy),
                            policy.budget, spec.top_k, spec.experts);
  }
}

const PolicyMethod kOeaMethod = {
    .kind = PolicyKind::kOea,
    .name = "oea",
    .summary = "each token votes k0 experts, then uses its k best of all that were voted",
    .needed_keys = kNeeded,
    .optional_keys = kOptional,
    .min_rows = 2,
    .shape = PolicyMethod::Shape::kBaseSet,
    .is_exact = votes_everything,
    .choose = vote,
    .example = "oea:k0=2",
    .check = check_votes,
};

}  // namespace tagalong::routing
