// topp: the smallest head of the exact choice that holds the share p of the row's score.
//
// Looks at one row at a time; batch mates do not matter.
#include "routing/policy_methods.h"
#include "routing/policy_step.h"

namespace tagalong::routing {

namespace {

constexpr std::string_view kNeeded[] = {"p"};
constexpr std::string_view kOptional[] = {"min_rows"};

void choose(const PolicyStep& step) {
  for (int row = 0; row < step.rows; ++row) {
    if (!step.is_decode(row)) continue;
    step.scratch.chosen_counts[static_cast<std::size_t>(row)] =
        experts_holding(step, row, step.policy.p, step.spec.top_k);
  }
}

}  // namespace

const PolicyMethod kTopPMethod = {
    .kind = PolicyKind::kTopP,
    .name = "topp",
    .summary = "the fewest of the token's experts that hold a share of its score",
    .needed_keys = kNeeded,
    .optional_keys = kOptional,
    .min_rows = 1,
    .shape = PolicyMethod::Shape::kShortRows,
    .is_exact = [](const PolicyStep& step) { return step.policy.p >= 1.0F; },
    .choose = choose,
    .example = "topp:p=0.6",
    .check = nullptr,
};

}  // namespace tagalong::routing
