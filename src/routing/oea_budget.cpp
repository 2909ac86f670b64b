// oea+budget: OEA's guarantee first, then the batch-wide most valuable experts up to a budget.
//
// An expert's value is the gate weight the batch's exact choices give it, so that the places left over go
// where most mass is missing. The votes are never cut: a budget below them buys nothing.
#include "routing/oea.h"
#include "routing/policy_methods.h"

namespace tagalong::routing {

namespace {

constexpr std::string_view kNeeded[] = {"k0", "budget"};
constexpr std::string_view kOptional[] = {"p", "k_max", "max_rank", "min_rows", "k0_by_layer", "k0_by_rows"};

void choose(const PolicyStep& step) {
  vote(step);
  if (count(step.base()) >= step.policy.budget) return;
  sum_gate_weights(step, step.values());
  fill_base(step, step.values(), step.policy.budget);
}

void check(const RoutingPolicy& policy, const RouterSpec& spec, std::string_view name) {
  check_votes(policy, spec, name);
  check_budget(policy, spec, name);
}

}  // namespace

const PolicyMethod kOeaBudgetMethod = {
    .kind = PolicyKind::kOeaBudget,
    .name = "oea+budget",
    .summary = "oea, then the experts the batch misses most, up to a budget",
    .needed_keys = kNeeded,
    .optional_keys = kOptional,
    .min_rows = 2,
    .shape = PolicyMethod::Shape::kBaseSet,
    .is_exact = votes_everything,
    .choose = choose,
    .example = "oea+budget:k0=2,budget=24",
    .check = check,
};

}  // namespace tagalong::routing
