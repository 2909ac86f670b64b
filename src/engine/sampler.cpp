#include "engine/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/split_mix.h"

namespace tagalong::engine {

namespace {

constexpr float kLargest = std::numeric_limits<float>::max();

// exp(x) for x <= 0, to about 2 ulp; 0 below the normal numbers. Our own, because the compiler can vectorise
// it and because it has the same bits on every machine, which a libm does not promise.
float exp_of_negative(float x) {
  constexpr float kLog2E = 1.44269504F;
  constexpr float kLn2High = 0.693359375F;
  constexpr float kLn2Low = -2.12194440e-4F;
  constexpr float kToNearest = 12582912.0F;  // 1.5 * 2^23: adding it leaves no bits for a fraction
  const float clamped = x > -87.0F ? x : -87.0F;
  const float n = (clamped * kLog2E + kToNearest) - kToNearest;
  const float r = (clamped - n * kLn2High) - n * kLn2Low;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * (r * r) + r + 1.0F;
  const float scale = std::bit_cast<float>((static_cast<std::int32_t>(n) + 127) << 23);
  return x > -87.0F ? p * scale : 0.0F;
}

// The comparison sends NaN to the lowest float.
float finite(float logit) {
  const float value = logit > -kLargest ? logit : -kLargest;
  return value < kLargest ? value : kLargest;
}

// In [0, 1): a function of seed and position alone, so that a recomputed sequence draws the same tokens.
double uniform(std::uint64_t seed, int position) {
  const std::uint64_t stream = base::split_mix(seed + base::kSplitMixStep);
  const std::uint64_t bits =
      base::split_mix(stream + base::kSplitMixStep * (static_cast<std::uint64_t>(position) + 1));
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace

Sampler::Sampler(int vocab)
    : values_(static_cast<std::size_t>(vocab)), weights_(values_.size()), kept_(values_.size()) {
  CHECK(vocab >= 1, "vocabulary of {}", vocab);
}

TokenLogprob Sampler::pick(std::span<const float> logits, const SamplingParams& params, int position,
                           std::span<TokenLogprob> top) {
  CHECK(logits.size() == values_.size(), "{} logits for {} tokens", logits.size(), values_.size());
  CHECK(top.size() <= values_.size(), "top {} of {} tokens", top.size(), values_.size());
  const float highest = take(logits);
  const double total = weigh(highest, 1);
  const auto logprob = [&](std::int32_t id) {
    const double value = double{values_[static_cast<std::size_t>(id)]} - highest - std::log(total);
    return static_cast<float>(std::max(value, double{kLeastLogprob}));
  };
  fill_top(top);
  for (TokenLogprob& entry : top) entry.logprob = logprob(entry.id);

  const auto best = std::find(values_.begin(), values_.end(), highest);
  auto id = static_cast<std::int32_t>(best - values_.begin());
  if (params.temperature > 0) {
    filter(params, params.temperature == 1 ? total : weigh(highest, params.temperature));
    double mass = 0;
    for (const std::int32_t kept : kept_) mass += weights_[static_cast<std::size_t>(kept)];
    double left = uniform(params.seed, position) * mass;
    for (const std::int32_t kept : kept_) {
      const float weight = weights_[static_cast<std::size_t>(kept)];
      if (weight == 0) continue;  // never drawn, not even when rounding leaves the last one to take it
      id = kept;
      left -= weight;
      if (left < 0) break;
    }
  }
  return {id, logprob(id)};
}

float Sampler::take(std::span<const float> logits) {
  // Many maxima, because one chain of comparisons would wait for each before it.
  constexpr std::size_t kLanes = 16;
  float highest[kLanes];
  std::fill_n(highest, kLanes, -kLargest);
  std::size_t i = 0;
  for (; i + kLanes <= values_.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const float value = finite(logits[i + lane]);
      values_[i + lane] = value;
      highest[lane] = value > highest[lane] ? value : highest[lane];
    }
  }
  for (; i < values_.size(); ++i) {
    values_[i] = finite(logits[i]);
    highest[0] = std::max(highest[0], values_[i]);
  }
  return *std::max_element(highest, highest + kLanes);
}

double Sampler::weigh(float highest, float temperature) {
  for (std::size_t i = 0; i < values_.size(); ++i) {
    weights_[i] = exp_of_negative((values_[i] - highest) / temperature);
  }
  // Four sums, because one chain of additions would take longer than the exponentials.
  double sums[4] = {};
  std::size_t i = 0;
  for (; i + 4 <= weights_.size(); i += 4) {
    for (std::size_t lane = 0; lane < 4; ++lane) sums[lane] += weights_[i + lane];
  }
  for (; i < weights_.size(); ++i) sums[0] += weights_[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

void Sampler::filter(const SamplingParams& params, double total) {
  const auto vocab = values_.size();
  const bool top_k = params.top_k > 0 && static_cast<std::size_t>(params.top_k) < vocab;
  const bool top_p = params.top_p < 1;
  // Without top_k the tokens below this weight add up to less than what top_p leaves out, so that it would
  // drop them all: not sorting them saves most of the time. With neither, min_p is the only bound.
  double floor = 0;
  if (!top_k) {
    floor = top_p ? (1 - double{params.top_p}) * total / static_cast<double>(vocab) * 0.999 : params.min_p;
  }
  kept_.resize(vocab);
  sorted_ = 0;
  std::size_t count = 0;
  for (std::size_t id = 0; id < vocab; ++id) {
    kept_[count] = static_cast<std::int32_t>(id);
    count += weights_[id] >= floor ? 1 : 0;
  }
  kept_.resize(count);

  if (top_k) {
    sort_front(static_cast<std::size_t>(params.top_k));
    kept_.resize(sorted_);
    total = 0;
    for (const std::int32_t id : kept_) total += weights_[static_cast<std::size_t>(id)];
  }
  if (top_p) {
    double mass = 0;
    std::size_t keep = 0;
    while (keep < kept_.size() && (keep == 0 || mass < params.top_p * total)) {
      if (keep == sorted_) sort_front(std::max<std::size_t>(32, 4 * sorted_));
      mass += weights_[static_cast<std::size_t>(kept_[keep])];
      ++keep;
    }
    kept_.resize(keep);
  }
  if (top_k || top_p) {
    std::size_t keep = kept_.size();
    while (keep > 1 && weights_[static_cast<std::size_t>(kept_[keep - 1])] < params.min_p) --keep;
    kept_.resize(keep);
  }
}

void Sampler::sort_front(std::size_t count) {
  const auto by_likelihood = [this](std::int32_t a, std::int32_t b) { return more_likely(a, b); };
  const auto front = kept_.begin() + static_cast<std::ptrdiff_t>(sorted_);
  if (count >= kept_.size()) {
    count = kept_.size();
    std::sort(front, kept_.end(), by_likelihood);
  } else {
    const auto end = kept_.begin() + static_cast<std::ptrdiff_t>(count);
    std::nth_element(front, end - 1, kept_.end(), by_likelihood);
    std::sort(front, end, by_likelihood);
  }
  sorted_ = count;
}

bool Sampler::more_likely(std::int32_t a, std::int32_t b) const {
  const float x = values_[static_cast<std::size_t>(a)];
  const float y = values_[static_cast<std::size_t>(b)];
  return x != y ? x > y : a < b;
}

void Sampler::fill_top(std::span<TokenLogprob> top) const {
  std::size_t filled = 0;
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(values_.size()) && !top.empty(); ++id) {
    if (filled == top.size()) {
      if (!more_likely(id, top.back().id)) continue;
    } else {
      ++filled;
    }
    std::size_t place = filled - 1;
    for (; place > 0 && more_likely(id, top[place - 1].id); --place) top[place].id = top[place - 1].id;
    top[place].id = id;
  }
}

}  // namespace tagalong::engine
