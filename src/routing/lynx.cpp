// lynx: the exact union without its `drop` least used experts (Lynx, arXiv 2411.08982).
//
// Use is the number of decode rows that choose an expert; among equals the higher id goes first. At least k
// experts stay, and those of exact rows and resident ones always do.
#include <algorithm>

#include "routing/policy_methods.h"
#include "routing/policy_step.h"

namespace tagalong::routing {

namespace {

constexpr std::string_view kNeeded[] = {"drop"};
constexpr std::string_view kOptional[] = {"min_rows"};

void choose(const PolicyStep& step) {
  const std::span<std::uint64_t> uses = step.values();
  std::ranges::fill(uses, 0U);
  for (int row = 0; row < step.rows; ++row) {
    if (!step.is_decode(row)) continue;
    for (const std::int32_t id : step.exact_of(row)) ++uses[static_cast<std::size_t>(id)];
  }
  const int size = count(ConstExpertSet(step.scratch.exact_union.data(), step.base().size()));
  fill_base(step, uses, std::max(step.spec.top_k, size - step.policy.drop));
}

}  // namespace

const PolicyMethod kLynxMethod = {
    .kind = PolicyKind::kLynx,
    .name = "lynx",
    .summary = "the exact union without its least used experts",
    .needed_keys = kNeeded,
    .optional_keys = kOptional,
    .min_rows = 2,
    .shape = PolicyMethod::Shape::kBaseSet,
    .is_exact = [](const PolicyStep& step) { return step.policy.drop == 0; },
    .choose = choose,
    .example = "lynx:drop=8",
    .check = nullptr,
};

}  // namespace tagalong::routing
