// The row kernels with AVX2 and FMA. Compiled for the base instruction set but for the marked region,
// and only called where row_kernels() has found the CPU to have it.
#include <immintrin.h>

#include <bit>
#include <cstdint>
#include <limits>

#include "routing/order_code.h"
#include "routing/row_kernels_tables.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,bmi,bmi2,lzcnt,popcnt"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,bmi,bmi2,lzcnt,popcnt")
#endif

namespace tagalong::routing {

namespace avx2 {
namespace {

using Vec = __m256;
using Mask = __m256;
inline constexpr int kLanes = 8;

inline __m256i first(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline Vec load(const float* p) { return _mm256_loadu_ps(p); }
inline void store(float* p, Vec a) { _mm256_storeu_ps(p, a); }
inline Vec set1(float a) { return _mm256_set1_ps(a); }
inline Vec select(Mask m, Vec a, Vec b) { return _mm256_blendv_ps(b, a, m); }
inline Vec load_partial(const float* p, int n) {
  const Vec nan = set1(std::numeric_limits<float>::quiet_NaN());
  return n <= 0 ? nan : select(_mm256_castsi256_ps(first(n)), _mm256_maskload_ps(p, first(n)), nan);
}
inline void store_partial(float* p, Vec a, int n) { _mm256_maskstore_ps(p, first(n), a); }
inline Vec add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
inline Vec sub(Vec a, Vec b) { return _mm256_sub_ps(a, b); }
inline Vec mul(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
inline Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
inline Vec div(Vec a, Vec b) { return _mm256_div_ps(a, b); }
inline Vec sqrt(Vec a) { return _mm256_sqrt_ps(a); }
inline Vec min(Vec a, Vec b) { return _mm256_min_ps(a, b); }
inline Mask less(Vec a, Vec b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
inline Mask is_nan(Vec a) { return _mm256_cmp_ps(a, a, _CMP_UNORD_Q); }
inline Mask either(Mask a, Mask b) { return _mm256_or_ps(a, b); }
inline bool any(Mask m) { return _mm256_movemask_ps(m) != 0; }
inline bool any_of_first(Mask m, int n) { return any(_mm256_and_ps(m, _mm256_castsi256_ps(first(n)))); }
inline Vec max(Vec a, Vec b) { return _mm256_max_ps(a, b); }
inline Vec negative_abs(Vec a) { return _mm256_or_ps(a, set1(-0.0F)); }
inline Vec nearest(Vec a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline Vec power_of_two(Vec n) {
  const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  return _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
}
inline Vec scale(Vec a, Vec n) {
  // Where 2^n is a normal number in all lanes one product does, rounded once.
  if (_mm256_movemask_ps(less(n, set1(-126.0F))) == 0) [[likely]]
    return mul(a, power_of_two(n));
  // Else in two halves: the first product is exact, the second rounds, even into the denormals.
  const Vec half = nearest(mul(n, set1(0.5F)));
  return mul(mul(a, power_of_two(half)), power_of_two(sub(n, half)));
}
inline Vec max_bits(Vec a, Vec b) {
  return _mm256_castsi256_ps(_mm256_max_epu32(_mm256_castps_si256(a), _mm256_castps_si256(b)));
}
inline bool any_bits_above(Vec a, Vec limit) {
  return any(_mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_castps_si256(a), _mm256_castps_si256(limit))));
}
inline Vec add_exponent(Vec a, Vec shifted) {
  const __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(shifted), 23);
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), exponent));
}
inline Vec select_negative(Vec sign, Vec a, Vec b) { return _mm256_blendv_ps(b, a, sign); }
inline __m256i order_codes(Vec key) {
  const __m256i bits = _mm256_castps_si256(key);
  const __m256i flip =
      _mm256_or_si256(_mm256_srai_epi32(bits, 31), _mm256_set1_epi32(std::numeric_limits<int>::min()));
  return _mm256_xor_si256(bits, flip);
}
inline void store_codes(std::uint32_t* p, Vec key) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), order_codes(key));
}
inline void store_codes(std::uint32_t* p, Vec key, Mask nan) {
  const Vec code = _mm256_castsi256_ps(order_codes(key));
  const Vec nan_code = _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(kNanCode)));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_castps_si256(select(nan, nan_code, code)));
}

#include "routing/gate_math-inl.h"

#include "routing/usual_keys-inl.h"

#include "routing/row_kernels-inl.h"

inline __m256i load_allowed(const std::uint32_t* codes, const std::uint64_t* allowed, int i) {
  const __m256i all = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + i));
  if (allowed == nullptr) return all;
  const auto bits = static_cast<int>((allowed[i / 64] >> (i % 64)) & 0xffU);
  const __m256i lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  return _mm256_and_si256(all, _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(bits), lane), lane));
}

inline __m256i exchange(__m256i a, __m256i partner, __m256i keep_larger) {
  return _mm256_blendv_epi8(_mm256_min_epu32(a, partner), _mm256_max_epu32(a, partner), keep_larger);
}

// Sorts 8 unsigned codes that rise and then fall, or fall and then rise, smallest first.
inline __m256i merge8(__m256i a) {
  a = exchange(a, _mm256_permute4x64_epi64(a, 0x4e), _mm256_setr_epi32(0, 0, 0, 0, -1, -1, -1, -1));
  a = exchange(a, _mm256_shuffle_epi32(a, 0x4e), _mm256_setr_epi32(0, 0, -1, -1, 0, 0, -1, -1));
  return exchange(a, _mm256_shuffle_epi32(a, 0xb1), _mm256_setr_epi32(0, -1, 0, -1, 0, -1, 0, -1));
}

// Sorts 8 unsigned codes, smallest first: a bitonic network.
inline __m256i sort8(__m256i a) {
  const __m256i odd = _mm256_setr_epi32(0, -1, 0, -1, 0, -1, 0, -1);
  const __m256i upper2 = _mm256_setr_epi32(0, 0, -1, -1, 0, 0, -1, -1);
  a = exchange(a, _mm256_shuffle_epi32(a, 0xb1), odd);
  a = exchange(a, _mm256_shuffle_epi32(a, 0x1b), upper2);
  a = exchange(a, _mm256_shuffle_epi32(a, 0xb1), odd);
  // Four rising twice: with the upper half turned around they rise and fall.
  return merge8(_mm256_permutevar8x32_epi32(a, _mm256_setr_epi32(0, 1, 2, 3, 7, 6, 5, 4)));
}

// A code that the k-th largest is not below, from the maxima of columns: where k columns hold an element that
// large, so many elements are. kMaskedCode + 1, everything that may be chosen, where there are too few
// columns.
inline std::uint32_t lower_bound(const std::uint32_t* codes, int padded, const std::uint64_t* allowed,
                                 int k) {
  if (k > 48) return kMaskedCode + 1;
  __m256i columns[8] = {};
  for (int i = 0; i < padded; i += 64) {
    for (int c = 0; c < 8; ++c) {
      columns[c] = _mm256_max_epu32(columns[c], load_allowed(codes, allowed, i + 8 * c));
    }
  }
  alignas(32) std::uint32_t sorted[16];
  const auto store = [&](int at, __m256i v) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(sorted + at), v);
  };
  if (k <= 12) {
    // The k-th largest of 16 columns.
    for (int c = 2; c < 8; ++c) columns[c % 2] = _mm256_max_epu32(columns[c % 2], columns[c]);
    const __m256i rising = sort8(columns[0]);
    const __m256i falling =
        _mm256_permutevar8x32_epi32(sort8(columns[1]), _mm256_setr_epi32(7, 6, 5, 4, 3, 2, 1, 0));
    store(0, merge8(_mm256_min_epu32(rising, falling)));
    store(8, merge8(_mm256_max_epu32(rising, falling)));
    return sorted[16 - k] > kMaskedCode ? sorted[16 - k] : kMaskedCode + 1;
  }
  // An eighth of k from each eighth of 64 columns: the least of the eight is a bound.
  const int share = (k + 7) / 8;
  std::uint32_t bound = std::numeric_limits<std::uint32_t>::max();
  for (const __m256i& column : columns) {
    store(0, sort8(column));
    bound = bound < sorted[8 - share] ? bound : sorted[8 - share];
  }
  return bound > kMaskedCode ? bound : kMaskedCode + 1;
}

#include "routing/top_k-inl.h"

// Which of 32 codes are at least `least`, as bits.
inline std::uint64_t hits32(const std::uint32_t* codes, const std::uint64_t* allowed, int i, __m256i least) {
  const auto reach = [&](int c) {
    const __m256i candidates = load_allowed(codes, allowed, i + 8 * c);
    return _mm256_cmpeq_epi32(_mm256_max_epu32(candidates, least), candidates);
  };
  // Packing works on halves of 128 bits; the permutation puts the groups of four back in order.
  const __m256i bytes =
      _mm256_packs_epi16(_mm256_packs_epi32(reach(0), reach(1)), _mm256_packs_epi32(reach(2), reach(3)));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  return static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_permutevar8x32_epi32(bytes, order)));
}

// The k best of `count` <= 16 candidates, zeros behind them: each is placed by how many beat it, without a
// branch.
inline int place16(const std::uint64_t (&candidates)[16], int count, int k, std::int32_t* ids) {
  // Composites are compared as signed numbers, the sign bit flipped in all. A lane of `places` loses one for
  // each candidate that beats the lane's own.
  const __m256i flip = _mm256_set1_epi64x(std::numeric_limits<long long>::min());
  __m256i own[4];
  __m256i places[4] = {};
  for (int v = 0; v < 4; ++v) {
    own[v] = _mm256_xor_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(candidates + 4 * v)), flip);
  }
  for (int i = 0; i < count; ++i) {
    const __m256i other = _mm256_xor_si256(_mm256_set1_epi64x(static_cast<long long>(candidates[i])), flip);
    for (int v = 0; v < 4; ++v) places[v] = _mm256_add_epi64(places[v], _mm256_cmpgt_epi64(other, own[v]));
  }
  long long place[16];
  for (int v = 0; v < 4; ++v) _mm256_storeu_si256(reinterpret_cast<__m256i*>(place + 4 * v), places[v]);
  std::int32_t placed[16];
  for (int i = 0; i < count; ++i) {
    placed[-place[i]] = static_cast<std::int32_t>(0xffffffffU - static_cast<std::uint32_t>(candidates[i]));
  }
  const int found = count < k ? count : k;
  for (int i = 0; i < found; ++i) ids[i] = placed[i];
  return found;
}

int top_k(const std::uint32_t* codes, int n, const std::uint64_t* allowed, int k, std::int32_t* ids) {
  const int padded = (n + kCodeAlign - 1) / kCodeAlign * kCodeAlign;
  const __m256i least = _mm256_set1_epi32(static_cast<int>(lower_bound(codes, padded, allowed, k)));
  std::uint64_t hits[kMaxExperts / 64];
  int total = 0;
  for (int word = 0; word < padded / 64; ++word) {
    hits[word] = hits32(codes, allowed, word * 64, least) | hits32(codes, allowed, word * 64 + 32, least)
                                                                << 32;
    total += std::popcount(hits[word]);
  }
  if (total <= 16) {
    std::uint64_t candidates[16] = {};
    gather_hits(codes, hits, padded / 64, candidates);
    return place16(candidates, total, k, ids);
  }
  return best_of_hits(codes, hits, padded / 64, k, ids);
}

}  // namespace
}  // namespace avx2

const RowKernels kAvx2RowKernels = {
    .name = "avx2",
    .softmax_norm = avx2::softmax_norm,
    .scores = avx2::scores,
    .codes = avx2::codes,
    .top_k = avx2::top_k,
};

}  // namespace tagalong::routing

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
