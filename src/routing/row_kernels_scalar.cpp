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
inline void store_codes(std::uint32_t* p, Vec a) { *p = order_code(a); }
inline Vec set1(float a) { return a; }
inline Vec add(Vec a, Vec b) { return a + b; }
inline Vec sub(Vec a, Vec b) { return a - b; }
inline Vec mul(Vec a, Vec b) { return a * b; }
inline Vec div(Vec a, Vec b) { return a / b; }
inline Vec sqrt(Vec a) { return std::sqrt(a); }
inline Vec min(Vec a, Vec b) { return a < b ? a : b; }
inline Mask less(Vec a, Vec b) { return a < b; }
inline Mask is_nan(Vec a) { return std::isnan(a); }
inline bool any_nan(Vec a, int) { return std::isnan(a); }
inline Vec select(Mask m, Vec a, Vec b) { return m ? a : b; }
inline Vec power_of_two(Vec n) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(static_cast<std::int32_t>(n) + 127) << 23);
}

#include "routing/gate_math-inl.h"
#include "routing/row_kernels-inl.h"

// Insertion into a sorted list of at most k composites: code above, complement of the id below, so that one
// comparison of integers is the whole ranking rule.
int top_k(const std::uint32_t* codes, int n, const std::uint64_t* allowed, int k, std::int32_t* ids) {
  std::uint64_t best[kMaxTopK];
  int found = 0;
  for (int i = 0; i < n; ++i) {
    if (codes[i] == kMaskedCode) continue;
    if (allowed != nullptr && ((allowed[i / 64] >> (i % 64)) & 1U) == 0) continue;
    const std::uint64_t candidate =
        (std::uint64_t{codes[i]} << 32) | (0xffffffffU - static_cast<std::uint32_t>(i));
    if (found == k && candidate < best[k - 1]) continue;
    int at = found < k ? found++ : k - 1;
    for (; at > 0 && best[at - 1] < candidate; --at) best[at] = best[at - 1];
    best[at] = candidate;
  }
  for (int i = 0; i < found; ++i)
    ids[i] = static_cast<std::int32_t>(0xffffffffU - static_cast<std::uint32_t>(best[i]));
  return found;
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
