#include "routing/policy_step.h"

#include <algorithm>
#include <array>

namespace tagalong::routing {

void scores_of(const PolicyStep& step, int row, std::span<const std::int32_t> ids, std::span<float> scores) {
  std::array<float, kMaxTopK> gathered;
  const std::span<const float> logits = step.logits_of(row);
  for (std::size_t i = 0; i < ids.size(); ++i) gathered[i] = logits[static_cast<std::size_t>(ids[i])];
  step.scratch.kernels->scores(step.spec.scoring, gathered.data(), static_cast<int>(ids.size()),
                               step.scratch.norms[static_cast<std::size_t>(row)], scores.data());
}

int experts_holding(const PolicyStep& step, int row, float p, int limit) {
  if (p >= 1.0F) return limit;
  std::array<float, kMaxTopK> scores;
  const std::span<const std::int32_t> exact = step.exact_of(row);
  scores_of(step, row, exact, scores);
  float total = 1.0F;
  if (step.spec.scoring != Scoring::kSoftmax) {
    total = 0.0F;
    for (std::size_t i = 0; i < exact.size(); ++i) total += scores[i];
  }
  float held = 0.0F;
  for (int t = 1; t < limit; ++t) {
    held += scores[static_cast<std::size_t>(t) - 1];
    if (held >= p * total) return t;
  }
  return limit;
}

}  // namespace tagalong::routing
