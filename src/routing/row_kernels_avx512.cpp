// The row kernels with AVX-512 (F, BW, VL, DQ). Compiled for the base instruction set but for the marked
// region, and only called where row_kernels() has found the CPU to have it.
#include <immintrin.h>

#include <bit>
#include <cstdint>
#include <limits>

#include "routing/order_code.h"
#include "routing/row_kernels_tables.h"

#if defined(__clang__)
#pragma clang attribute push(                                                            \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,bmi,bmi2,lzcnt,popcnt"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,bmi,bmi2,lzcnt,popcnt")
#endif

namespace tagalong::routing {

namespace avx512 {
namespace {

using Vec = __m512;
using Mask = __mmask16;
inline constexpr int kLanes = 16;

inline __mmask16 first(int n) { return static_cast<__mmask16>(n >= 16 ? 0xffffU : (1U << n) - 1U); }
inline Vec load(const float* p) { return _mm512_loadu_ps(p); }
inline void store(float* p, Vec a) { _mm512_storeu_ps(p, a); }
inline Vec set1(float a) { return _mm512_set1_ps(a); }
inline Vec load_partial(const float* p, int n) {
  return _mm512_mask_loadu_ps(set1(std::numeric_limits<float>::quiet_NaN()), first(n), p);
}
inline void store_partial(float* p, Vec a, int n) { _mm512_mask_storeu_ps(p, first(n), a); }
inline Vec add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
inline Vec sub(Vec a, Vec b) { return _mm512_sub_ps(a, b); }
inline Vec mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
inline Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
inline Vec div(Vec a, Vec b) { return _mm512_div_ps(a, b); }
inline Vec sqrt(Vec a) { return _mm512_sqrt_ps(a); }
inline Vec min(Vec a, Vec b) { return _mm512_min_ps(a, b); }
inline Mask less(Vec a, Vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
inline Mask is_nan(Vec a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
inline Mask either(Mask a, Mask b) { return static_cast<Mask>(a | b); }
inline bool any(Mask m) { return m != 0; }
inline bool any_of_first(Mask m, int n) { return (m & first(n)) != 0; }
inline Vec select(Mask m, Vec a, Vec b) { return _mm512_mask_blend_ps(m, b, a); }
inline Vec max(Vec a, Vec b) { return _mm512_max_ps(a, b); }
inline Vec negative_abs(Vec a) { return _mm512_or_ps(a, set1(-0.0F)); }
inline Vec nearest(Vec a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline Vec scale(Vec a, Vec n) { return _mm512_scalef_ps(a, n); }
inline Vec max_bits(Vec a, Vec b) {
  return _mm512_castsi512_ps(_mm512_max_epu32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
}
inline bool any_bits_above(Vec a, Vec limit) {
  return _mm512_cmpgt_epu32_mask(_mm512_castps_si512(a), _mm512_castps_si512(limit)) != 0;
}
inline Vec add_exponent(Vec a, Vec shifted) {
  const __m512i exponent = _mm512_slli_epi32(_mm512_castps_si512(shifted), 23);
  return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a), exponent));
}
inline Vec select_negative(Vec sign, Vec a, Vec b) {
  return select(_mm512_movepi32_mask(_mm512_castps_si512(sign)), a, b);
}
inline __m512i order_codes(Vec key) {
  const __m512i bits = _mm512_castps_si512(key);
  // bits ^ (sign spread over all bits | the sign bit), in one three-operand step.
  return _mm512_ternarylogic_epi32(bits, _mm512_srai_epi32(bits, 31),
                                   _mm512_set1_epi32(std::numeric_limits<int>::min()), 0x1e);
}
inline void store_codes(std::uint32_t* p, Vec key) { _mm512_storeu_si512(p, order_codes(key)); }
inline void store_codes(std::uint32_t* p, Vec key, Mask nan) {
  const __m512i nan_code = _mm512_set1_epi32(static_cast<int>(kNanCode));
  _mm512_storeu_si512(p, _mm512_mask_mov_epi32(order_codes(key), nan, nan_code));
}

#include "routing/gate_math-inl.h"

#include "routing/usual_keys-inl.h"

#include "routing/row_kernels-inl.h"

// Sorts 16 unsigned codes, smallest first: a bitonic network, each step one shuffle, a minimum and a maximum.
inline __m512i exchange(__m512i a, __m512i partner, __mmask16 keep_larger) {
  return _mm512_mask_max_epu32(_mm512_min_epu32(a, partner), keep_larger, a, partner);
}
inline __m512i swap1(__m512i v) { return _mm512_shuffle_epi32(v, _MM_PERM_CDAB); }
inline __m512i swap2(__m512i v) { return _mm512_shuffle_epi32(v, _MM_PERM_BADC); }
inline __m512i swap4(__m512i v) { return _mm512_shuffle_i64x2(v, v, 0xb1); }
inline __m512i reverse4(__m512i v) { return _mm512_shuffle_epi32(v, _MM_PERM_ABCD); }
inline __m512i sort16(__m512i a) {
  const __m512i reverse16 = _mm512_set_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i reverse8 = _mm512_set_epi32(8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
  a = exchange(a, swap1(a), 0xaaaa);
  a = exchange(a, reverse4(a), 0xcccc);
  a = exchange(a, swap1(a), 0xaaaa);
  a = exchange(a, _mm512_permutexvar_epi32(reverse8, a), 0xf0f0);
  a = exchange(a, swap2(a), 0xcccc);
  a = exchange(a, swap1(a), 0xaaaa);
  a = exchange(a, _mm512_permutexvar_epi32(reverse16, a), 0xff00);
  a = exchange(a, swap4(a), 0xf0f0);
  a = exchange(a, swap2(a), 0xcccc);
  return exchange(a, swap1(a), 0xaaaa);
}

inline __m512i load_allowed(const std::uint32_t* codes, const std::uint64_t* allowed, int i) {
  if (allowed == nullptr) return _mm512_loadu_si512(codes + i);
  const auto mask = static_cast<__mmask16>(allowed[i / 64] >> (i % 64));
  return _mm512_maskz_loadu_epi32(mask, codes + i);
}

// A code that the k-th largest is not below, from the maxima of 32 or 64 columns: at least k columns hold an
// element that large. kMaskedCode + 1, everything that may be chosen, where there are too few columns.
inline std::uint32_t lower_bound(const std::uint32_t* codes, int padded, const std::uint64_t* allowed,
                                 int k) {
  __m512i columns[4] = {};
  for (int i = 0; i < padded; i += 64) {
    for (int c = 0; c < 4; ++c) {
      columns[c] = _mm512_max_epu32(columns[c], load_allowed(codes, allowed, i + 16 * c));
    }
  }
  alignas(64) std::uint32_t sorted[16];
  if (k <= 12) {
    // The k-th largest of 16 maxima of 4 columns each is a bound as well, and one network is all it takes.
    const __m512i all =
        _mm512_max_epu32(_mm512_max_epu32(columns[0], columns[1]), _mm512_max_epu32(columns[2], columns[3]));
    _mm512_store_si512(sorted, sort16(all));
    return sorted[16 - k] > kMaskedCode ? sorted[16 - k] : kMaskedCode + 1;
  }
  if (k > 48) return kMaskedCode + 1;
  // A quarter of k from each quarter of the columns: the least of the four is a bound.
  const int quarter = (k + 3) / 4;
  std::uint32_t bound = std::numeric_limits<std::uint32_t>::max();
  for (const __m512i& column : columns) {
    _mm512_store_si512(sorted, sort16(column));
    bound = bound < sorted[16 - quarter] ? bound : sorted[16 - quarter];
  }
  return bound > kMaskedCode ? bound : kMaskedCode + 1;
}

#include "routing/top_k-inl.h"

// The k best of at most 16 candidates: each is placed by how many beat it, without a branch.
inline int place16(const std::uint64_t* candidates, int count, int k, std::int32_t* ids) {
  const __m512i low = _mm512_maskz_loadu_epi64(static_cast<__mmask8>(first(count)), candidates);
  const __m512i high = _mm512_maskz_loadu_epi64(static_cast<__mmask8>(first(count) >> 8), candidates + 8);
  std::int32_t placed[16];
  for (int i = 0; i < count; ++i) {
    const __m512i own = _mm512_set1_epi64(static_cast<long long>(candidates[i]));
    const unsigned better =
        _mm512_cmpgt_epu64_mask(low, own) | (unsigned{_mm512_cmpgt_epu64_mask(high, own)} << 8);
    placed[std::popcount(better)] =
        static_cast<std::int32_t>(0xffffffffU - static_cast<std::uint32_t>(candidates[i]));
  }
  const int found = count < k ? count : k;
  for (int i = 0; i < found; ++i) ids[i] = placed[i];
  return found;
}

// Which of 64 codes are at least `least`, as bits.
inline std::uint64_t hits64(const std::uint32_t* codes, const std::uint64_t* allowed, int i, __m512i least) {
  std::uint64_t hits = 0;
  for (int c = 0; c < 4; ++c) {
    const __mmask16 mask = _mm512_cmpge_epu32_mask(load_allowed(codes, allowed, i + 16 * c), least);
    hits |= std::uint64_t{mask} << (16 * c);
  }
  return hits;
}

int top_k(const std::uint32_t* codes, int n, const std::uint64_t* allowed, int k, std::int32_t* ids) {
  const int padded = (n + kCodeAlign - 1) / kCodeAlign * kCodeAlign;
  const __m512i least = _mm512_set1_epi32(static_cast<int>(lower_bound(codes, padded, allowed, k)));
  std::uint64_t hits[kMaxExperts / 64];
  int total = 0;
  for (int word = 0; word < padded / 64; ++word) {
    hits[word] = hits64(codes, allowed, word * 64, least);
    total += std::popcount(hits[word]);
  }
  if (total <= 16) {
    alignas(64) std::uint64_t candidates[16];
    gather_hits(codes, hits, padded / 64, candidates);
    return place16(candidates, total, k, ids);
  }
  return best_of_hits(codes, hits, padded / 64, k, ids);
}

}  // namespace
}  // namespace avx512

const RowKernels kAvx512RowKernels = {
    .name = "avx512",
    .softmax_norm = avx512::softmax_norm,
    .scores = avx512::scores,
    .codes = avx512::codes,
    .top_k = avx512::top_k,
};

}  // namespace tagalong::routing

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
