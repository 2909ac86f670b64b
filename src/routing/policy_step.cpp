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

std::uint64_t fixed_point(float score) {
  constexpr float kOne = 0x1p40F;
  return static_cast<std::uint64_t>(std::min(score, 8.0F) * kOne);
}

void sum_gate_weights(const PolicyStep& step, std::span<std::uint64_t> values) {
  std::ranges::fill(values, 0U);
  std::array<float, kMaxTopK> scores;
  for (int row = 0; row < step.rows; ++row) {
    if (!step.is_decode(row)) continue;
    const std::span<const std::int32_t> exact = step.exact_of(row);
    scores_of(step, row, exact, std::span(scores).first(exact.size()));
    float sum = 0.0F;
    for (std::size_t i = 0; i < exact.size(); ++i) sum += scores[i];
    if (sum <= 0.0F) continue;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      values[static_cast<std::size_t>(exact[i])] += fixed_point(scores[i] / sum);
    }
  }
}

void fill_base(const PolicyStep& step, std::span<const std::uint64_t> values, int size) {
  for (int held = count(step.base()); held < size; ++held) {
    int best = -1;
    for (int id = 0; id < step.spec.experts; ++id) {
      const std::uint64_t value = values[static_cast<std::size_t>(id)];
      if (value > 0 && !contains(step.base(), id) &&
          (best < 0 || value > values[static_cast<std::size_t>(best)])) {
        best = id;
      }
    }
    if (best < 0) return;
    insert(step.base(), best);
  }
}

int experts_holding(const PolicyStep& step, int row, float p, int limit) {
  if (p >= 1.0F) return limit;
  std::array<float, kMaxTopK> scores;
  const std::span<const std::int32_t> exact = step.exact_of(row);
  scores_of(step, row, exact, std::span(scores).first(exact.size()));
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
