// pruned: each decode row keeps its k0 best experts and no others. The control of OEA: the same votes, nobody
// tags along.
#include "routing/policy_methods.h"
#include "routing/policy_step.h"

namespace tagalong::routing {

namespace {

constexpr std::string_view kNeeded[] = {"k0"};
constexpr std::string_view kOptional[] = {"min_rows", "k0_by_layer", "k0_by_rows"};

void choose(const PolicyStep& step) {
  for (int row = 0; row < step.rows; ++row) {
    if (step.is_decode(row)) step.scratch.chosen_counts[static_cast<std::size_t>(row)] = step.votes;
  }
}

}  // namespace

const PolicyMethod kPrunedMethod = {
    .kind = PolicyKind::kPruned,
    .name = "pruned",
    .summary = "each token's k0 best experts alone (a control)",
    .needed_keys = kNeeded,
    .optional_keys = kOptional,
    .min_rows = 1,
    .shape = PolicyMethod::Shape::kShortRows,
    .is_exact = [](const PolicyStep& step) { return step.votes >= step.spec.top_k; },
    .choose = choose,
    .example = "pruned:k0=2",
    .check = nullptr,
};

}  // namespace tagalong::routing
