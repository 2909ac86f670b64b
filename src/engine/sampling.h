// How a request wants its tokens chosen. Plain data; checked once, when the request is submitted.
#pragma once

#include <cstdint>

namespace tagalong::engine {

// The filters apply in this order: temperature, top_k, top_p, min_p.
struct SamplingParams {
  float temperature = 1;   // >= 0; 0 is greedy, and the filters then change nothing
  int top_k = 0;           // keep the k most likely tokens; 0 keeps all
  float top_p = 1;         // in (0, 1]: keep the fewest tokens whose probabilities reach it
  float min_p = 0;         // in [0, 1]: drop tokens less likely than this share of the likeliest one
  std::uint64_t seed = 0;  // with the position it fixes the draw, whatever else is in the batch
};

// Throws InputError naming the field, its value and its range.
void validate(const SamplingParams& params);

}  // namespace tagalong::engine
