// What a row of logits says about one token, in double precision: for measuring a text, where the sum over
// many tokens matters more than the time.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tagalong::engine {

// The natural logarithm of the token's probability.
inline double log_probability(std::span<const float> logits, std::int32_t id) {
  const double highest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - highest);
  return logits[static_cast<std::size_t>(id)] - highest - std::log(sum);
}

}  // namespace tagalong::engine
