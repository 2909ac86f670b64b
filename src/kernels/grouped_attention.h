// Attention of the query heads that share one cached key/value head (grouped-query attention), over one part
// of the positions; parts are folded together afterwards, as in flash attention.
//
//   s_t = (q . k_t) * scale;  m = max s;  sum = sum over t of exp(s_t - m);  out = sum over t of exp(s_t - m)
//   v_t
//
// Parts begin at multiples of kAttentionPart positions, whatever the batch, so that a row's result is one
// fixed sequence of operations: within a part a score sums its products from the first value to the last,
// `out` takes the positions in order, and parts are folded from the first to the last. The keys and values of
// a part are read once for all heads and rows of a call. Source: Ainslie et al., arXiv 2305.13245 (grouped
// queries); Dao et al., arXiv 2205.14135 (parts).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace tagalong::kernels {

inline constexpr int kAttentionPart = 256;  // positions; their scores for a call's rows stay in the L2 cache

// What attention has come to so far for the heads of one row.
struct AttentionSums {
  float* largest;  // [heads] m
  float* sum;      // [heads]
  float* out;      // [heads, dim] not yet divided by sum
};

struct GroupedAttention {
  const float* queries[kAttentionRows];  // per row [heads, dim]
  int counts[kAttentionRows];            // per row: positions of the part that it sees, 1..kAttentionPart
  AttentionSums sums[kAttentionRows];    // per row: written
  int rows;                              // 1..kAttentionRows
  int heads;                             // of a row
  int dim;                               // multiple of 16
  const std::byte* keys;                 // of slot 0: [dim] of this key/value head
  const std::byte* values;               // likewise
  std::size_t stride;                    // bytes from slot to slot
  CacheFormat format;
  const std::int32_t* slots;  // [largest of counts] in order of position
  float scale;
  float* scratch;  // [grouped_attention_scratch(heads)]
};

// Floats of scratch memory that a call needs: a panel of keys or values, and all scores.
constexpr std::size_t grouped_attention_scratch(int heads) {
  return static_cast<std::size_t>(kAttentionBlock) * kAttentionBlock +
         static_cast<std::size_t>(kAttentionRows) * static_cast<std::size_t>(heads) * kAttentionPart;
}

// Adds the sums of the next part to those of all parts before it.
struct AttentionFold {
  AttentionSums total;
  AttentionSums part;  // only read
  int heads;
  int dim;  // multiple of 16
};

}  // namespace tagalong::kernels
