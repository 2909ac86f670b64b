// ser: an expert beyond the first k_min is kept only while its score exceeds t times the row's best.
//
// Looks at one row at a time; batch mates do not matter.
#include <array>

#include "base/error.h"
#include "routing/policy_methods.h"
#include "routing/policy_step.h"

namespace tagalong::routing {

namespace {

constexpr std::string_view kNeeded[] = {"k_min", "t"};
constexpr std::string_view kOptional[] = {"min_rows"};

void choose(const PolicyStep& step) {
  std::array<float, kMaxTopK> scores;
  for (int row = 0; row < step.rows; ++row) {
    if (!step.is_decode(row)) continue;
    const std::span<const std::int32_t> exact = step.exact_of(row);
    scores_of(step, row, exact, std::span(scores).first(exact.size()));
    auto kept = static_cast<std::size_t>(step.policy.k_min);
    while (kept < exact.size() && scores[kept] > step.policy.t * scores[0]) ++kept;
    step.scratch.chosen_counts[static_cast<std::size_t>(row)] = static_cast<std::int32_t>(kept);
  }
}

bool is_off(const PolicyStep& step) { return step.policy.t <= 0.0F || step.policy.k_min >= step.spec.top_k; }

void check(const RoutingPolicy& policy, const RouterSpec& spec, std::string_view name) {
  if (policy.k_min < 1 || policy.k_min > spec.top_k) {
    throw base::input_error("{}: policy '{}': k_min = {}, expected 1..{}", name, to_string(policy),
                            policy.k_min, spec.top_k);
  }
}

}  // namespace

const PolicyMethod kSerMethod = {
    .kind = PolicyKind::kSer,
    .name = "ser",
    .summary = "drops experts whose score is below a share of the token's best",
    .needed_keys = kNeeded,
    .optional_keys = kOptional,
    .min_rows = 1,
    .shape = PolicyMethod::Shape::kShortRows,
    .is_exact = is_off,
    .choose = choose,
    .example = "ser:k_min=1,t=0.5",
    .check = check,
};

}  // namespace tagalong::routing
