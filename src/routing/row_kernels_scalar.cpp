// The row kernels in plain C++: the oracle of the vector ones, and what runs where they cannot.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "routing/order_code.h"
#include "routing/row_kernels_tables.h"

namespace tagalong::routing {

namespace scalar {
namespace {

using Vec = float;
using Mask = bool;
inline constexpr int kLanes = 1;

inline Vec load(const float* p) { return *p; }
inline void store(float* p, Vec a) { *p = a; }
inline Vec load_partial(const float* p, int n) {
  return n > 0 ? *p : std::numeric_limits<float>::quiet_NaN();
}
inline void store_partial(float* p, Vec a, int n) {
  if (n > 0) *p = a;
}
inline void store_codes(std::uint32_t* p, Vec a, Mask nan) { *p = nan ? kNanCode : order_code(a); }
inline Vec set1(float a) { return a; }
inline Vec add(Vec a, Vec b) { return a + b; }
inline Vec sub(Vec a, Vec b) { return a - b; }
inline Vec mul(Vec a, Vec b) { return a * b; }
inline Vec fma(Vec a, Vec b, Vec c) { return std::fma(a, b, c); }
inline Vec div(Vec a, Vec b) { return a / b; }
inline Vec sqrt(Vec a) { return std::sqrt(a); }
inline Vec min(Vec a, Vec b) { return a < b ? a : b; }
inline Mask less(Vec a, Vec b) { return a < b; }
inline Mask is_nan(Vec a) { return std::isnan(a); }
inline Mask either(Mask a, Mask b) { return a || b; }
inline bool any(Mask m) { return m; }
inline bool any_of_first(Mask m, int) { return m; }
inline Vec select(Mask m, Vec a, Vec b) { return m ? a : b; }
inline Vec max(Vec a, Vec b) { return a > b ? a : b; }
inline Vec negative_abs(Vec a) { return -std::abs(a); }
inline Vec nearest(Vec a) {
  return (a + 12582912.0F) - 12582912.0F;
}  // 1.5 * 2^23: the sum has no fraction bits
inline Vec power_of_two(Vec n) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(static_cast<std::int32_t>(n) + 127) << 23);
}
// In two halves: the first product is exact, the second rounds, even into the denormals.
inline Vec scale(Vec a, Vec n) {
  const Vec half = nearest(n * 0.5F);
  return (a * power_of_two(half)) * power_of_two(n - half);
}

#include "routing/gate_math-inl.h"

// The oracle knows the general way only.
inline bool usual_sigmoid_codes(const float*, const float*, int, std::uint32_t*) { return false; }

#include "routing/row_kernels-inl.h"

#include "routing/top_k-inl.h"

int top_k(const std::uint32_t* codes, int n, const std::uint64_t* allowed, int k, std::int32_t* ids) {
  BestList best(k);
  for (int i = 0; i < n; ++i) {
    if (codes[i] == kMaskedCode) continue;
    if (allowed != nullptr && ((allowed[i / 64] >> (i % 64)) & 1U) == 0) continue;
    best.offer(composite(codes, i));
  }
  return best.write(ids);
}

}  // namespace
}  // namespace scalar

const RowKernels kScalarRowKernels = {
    .name = "scalar",
    .softmax_norm = scalar::softmax_norm,
    .scores = scalar::scores,
    .codes = scalar::codes,
    .top_k = scalar::top_k,
};

}  // namespace tagalong::routing
