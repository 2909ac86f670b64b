// Attention of some heads that share their keys and values, over one part of the positions; parts are folded
// together afterwards, as in flash attention.
//
//   s_t = (q . k_t) * scale;  m = max s;  sum = sum over t of exp(s_t - m);  out = sum over t of exp(s_t - m)
//   v_t
//
// In grouped-query attention the heads of one key/value head share them. In the absorbed form of latent
// attention all heads do: a key is the latent followed by the rotated key, a value is the latent.
//
// Parts begin at multiples of kAttentionPart positions, whatever the batch, so that a row's result is one
// fixed sequence of operations: within a part a score sums its products from the first value to the last,
// `out` takes the positions in order, and parts are folded from the first to the last. The keys and values of
// a part are read once for all heads and rows of a call; neither the other rows nor the other heads change a
// bit. Source: Ainslie et al., arXiv 2305.13245 (grouped queries); DeepSeek-V2, arXiv 2405.04434 (latents);
// Dao et al., arXiv 2205.14135 (parts).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace tagalong::kernels {

inline constexpr int kAttentionPart = 256;  // positions; their scores for a call's rows stay in the L2 cache
static_assert(kAttentionPart % kAttentionBlock == 0);

// What attention has come to so far for some heads of one row.
struct AttentionSums {
  float* largest;  // [heads] m
  float* sum;      // [heads]
  float* out;      // [heads, dim] not yet divided by sum
};

// A plane of the cache that holds keys, or the first or second values of them.
struct AttentionKeys {
  const float* queries[kAttentionRows];  // per row [heads, width]
  const std::byte* data;                 // of slot 0: [width]
  std::size_t stride;                    // bytes from slot to slot
  int width;                             // multiple of 16; 0: there is no such plane
};

struct AttentionPart {
  AttentionKeys keys[2];               // a score sums the products of the first, then those of the second
  int counts[kAttentionRows];          // per row: positions of the part that it sees, 1..kAttentionPart
  AttentionSums sums[kAttentionRows];  // per row: written
  int rows;                            // 1..kAttentionRows
  int heads;                           // of a row
  int dim;                             // of a value; multiple of 16
  const std::byte* values;             // of slot 0: [dim]
  std::size_t stride;                  // bytes from slot to slot
  CacheFormat format;
  const std::int32_t* slots;  // [largest of counts] in order of position
  float scale;
  float* scratch;  // [attention_scratch(heads)]
};

// Floats of scratch memory that a call needs: a panel of keys or values, and all scores.
constexpr std::size_t attention_scratch(int heads) {
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
