// Picks a token from one row of logits. One Sampler per thread: it owns scratch memory, and nothing of one
// call reaches the next. Never allocates after construction.
//
// The choice depends on the logits, the parameters and the position only, never on the batch. A logit that is
// not a number counts as the lowest float, and infinities as the largest and the lowest one, so that every
// row has a defined outcome: a row of NaN is a row of equal logits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/sampling.h"

namespace tagalong::engine {

inline constexpr int kMaxTopLogprobs = 20;
inline constexpr float kLeastLogprob = -9999;  // reported for anything less likely, so that all are finite

struct TokenLogprob {
  std::int32_t id = 0;
  float logprob = 0;
};

class Sampler {
 public:
  explicit Sampler(int vocab);

  // The token for `position` of its sequence. At temperature 0 the one with the highest logit; ties go to the
  // lowest id. `logits` has `vocab` values. Fills `top`, at most vocab long, with the likeliest tokens, ties
  // in order of id. All logprobs are of the model's own distribution, before temperature and filters.
  TokenLogprob pick(std::span<const float> logits, const SamplingParams& params, int position,
                    std::span<TokenLogprob> top = {});

 private:
  // Fills values_; returns the highest.
  float take(std::span<const float> logits);
  // Fills weights_ with exp((value - highest) / temperature); returns their sum.
  double weigh(float highest, float temperature);
  // Leaves in kept_ what survives top_k, top_p and min_p; `total` is the sum of weights_.
  void filter(const SamplingParams& params, double total);
  // Puts the likeliest of kept_ in order at its front, until `count` are, or all.
  void sort_front(std::size_t count);
  void fill_top(std::span<TokenLogprob> top) const;
  bool more_likely(std::int32_t a, std::int32_t b) const;

  std::vector<float> values_;       // [vocab] the logits, all finite
  std::vector<float> weights_;      // [vocab] not normalised; the likeliest token's is 1
  std::vector<std::int32_t> kept_;  // ids, room for [vocab]
  std::size_t sorted_ = 0;          // of kept_, at its front
};

}  // namespace tagalong::engine
