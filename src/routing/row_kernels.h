// The inner loops of routing over one row: keys, softmax sums, top-k. One table per instruction set.
//
// Every table gives the same bits: the arithmetic is written once over an abstract vector (gate_math-inl.h)
// with every rounding spelled out (a fused multiply-add is one where it is written), sums run over 16 fixed
// partial sums, and choices are made on integer order codes. Pure functions, any thread; nothing is allocated
// and nothing fails.
#pragma once

#include <cstdint>

#include "routing/router_spec.h"

namespace tagalong::routing {

enum class RouteIsa : std::uint8_t { kBest, kScalar, kAvx2, kAvx512 };

// Rows of codes start and end on multiples of this many elements.
inline constexpr int kCodeAlign = 64;

// What a row's softmax needs besides the logit: the largest logit and the sum of exp(l - largest).
struct RowNorm {
  float largest = 0.0F;
  float sum = 1.0F;
};

struct RowKernels {
  const char* name;
  // Largest logit and sum over n logits, NaN left out. The limit is taken at infinities.
  RowNorm (*softmax_norm)(const float* logits, int n);
  // scores[i] of n logits under `scoring`; a NaN logit scores 0. `norm` is used by the softmaxes.
  void (*scores)(Scoring scoring, const float* logits, int n, RowNorm norm, float* scores);
  // Order codes of the keys: of the logits where bias is null, else of score + bias. Pads up to the next
  // multiple of kCodeAlign become kMaskedCode. Returns whether a logit is NaN.
  bool (*codes)(Scoring scoring, const float* logits, const float* bias, int n, RowNorm norm,
                std::uint32_t* codes);
  // The k largest of n codes, best first, ties to the lower id, masked ones never: their number is returned.
  // `allowed` is null or a bit set, [n rounded up to 512] bits, of the ids that may be chosen.
  int (*top_k)(const std::uint32_t* codes, int n, const std::uint64_t* allowed, int k, std::int32_t* ids);
};

// The table for an instruction set; kBest takes the widest this CPU has. CHECKs that the CPU has it.
const RowKernels& row_kernels(RouteIsa isa);

// Whether this CPU can run that table.
bool available(RouteIsa isa);

}  // namespace tagalong::routing
