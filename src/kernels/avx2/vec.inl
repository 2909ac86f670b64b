// The 16-lane vector of generic/kernels.inl as two ymm registers. Included inside a begin.h region.

struct Vec {
  __m256 lo;  // lanes 0..7
  __m256 hi;  // lanes 8..15
};

// Rows of a float tile: four running sums in two halves; those of four rows would be spilled.
inline constexpr int kFloatRows = 2;

// Vectors side by side in a product of generic/attention.inl: with four heads, eight running sums, the two
// halves and a broadcast in the sixteen registers.
inline constexpr int kPanelVecs = 1;

inline Vec load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void store(float* p, Vec a) {
  _mm256_storeu_ps(p, a.lo);
  _mm256_storeu_ps(p + 8, a.hi);
}
inline Vec broadcast(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline Vec operator+(Vec a, Vec b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
inline Vec operator-(Vec a, Vec b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
inline Vec operator*(Vec a, Vec b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
inline Vec operator/(Vec a, Vec b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
inline Vec fma(Vec a, Vec b, Vec c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
inline Vec max(Vec a, Vec b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
inline Vec min(Vec a, Vec b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
inline Vec round_even(Vec a) {
  constexpr int kMode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(a.lo, kMode), _mm256_round_ps(a.hi, kMode)};
}
inline __m256 half_power_of_two(__m256 n) {
  const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  return _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
}
// 2^n for whole n in [-126, 127].
inline Vec power_of_two(Vec n) { return {half_power_of_two(n.lo), half_power_of_two(n.hi)}; }

inline __m256 half_load_bf16(const std::byte* p) {
  const __m256i bits = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16));
}
inline Vec load_bf16(const std::byte* p) { return {half_load_bf16(p), half_load_bf16(p + 16)}; }
// Sixteen e4m3 codes as binary16 numbers 2^-8 times their value: shifted, subnormals included; NaN is all
// ones.
inline __m256i e4m3_to_half(__m128i codes) {
  const __m256i wide = _mm256_cvtepu8_epi16(codes);
  const __m256i magnitude = _mm256_slli_epi16(_mm256_and_si256(wide, _mm256_set1_epi16(0x7F)), 7);
  const __m256i sign = _mm256_slli_epi16(_mm256_and_si256(wide, _mm256_set1_epi16(0x80)), 8);
  const __m256i nan = _mm256_cmpeq_epi16(magnitude, _mm256_set1_epi16(0x7F << 7));
  return _mm256_or_si256(_mm256_or_si256(magnitude, sign), nan);
}
inline Vec load_e4m3(const std::byte* p) {
  const __m256i halves = e4m3_to_half(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  const __m256 unit = _mm256_set1_ps(256.0F);
  return {_mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(halves)), unit),
          _mm256_mul_ps(_mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1)), unit)};
}
// The same codes where none is NaN, times 2^-8: the sign extended and the code shifted, bit 14 is all there
// is to clear.
inline Vec load_small_e4m3(const std::byte* p) {
  const __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  const __m256i halves =
      _mm256_and_si256(_mm256_slli_epi16(wide, 7), _mm256_set1_epi16(static_cast<short>(0xBFFF)));
  return {_mm256_cvtph_ps(_mm256_castsi256_si128(halves)),
          _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1))};
}
inline void half_load_bf16_pairs(const std::byte* p, __m256& low, __m256& high) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  low = _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16));
  high = _mm256_castsi256_ps(_mm256_and_si256(bits, _mm256_set1_epi32(static_cast<int>(0xFFFF0000U))));
}
// Sixteen pairs of bf16: the low halves of the lanes, and the high ones.
inline void load_bf16_pairs(const std::byte* p, Vec& low, Vec& high) {
  half_load_bf16_pairs(p, low.lo, high.lo);
  half_load_bf16_pairs(p + 32, low.hi, high.hi);
}

// The tree of scalar::Lanes::sum.
inline float sum(Vec a) {
  const __m256 eight = _mm256_add_ps(a.lo, a.hi);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

// The tree of scalar::Lanes::largest.
inline float largest(Vec a) {
  const __m256 eight = _mm256_max_ps(a.lo, a.hi);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

// Largest |lane| as its bits, so that NaN and infinity rank above all numbers.
inline std::uint32_t largest_magnitude_bits(Vec a) {
  const __m256i mask = _mm256_set1_epi32(0x7FFFFFFF);
  const __m256i eight = _mm256_max_epu32(_mm256_and_si256(_mm256_castps_si256(a.lo), mask),
                                         _mm256_and_si256(_mm256_castps_si256(a.hi), mask));
  const __m128i four = _mm_max_epu32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  const __m128i two = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0x4E));
  return static_cast<std::uint32_t>(_mm_cvtsi128_si32(_mm_max_epu32(two, _mm_shuffle_epi32(two, 0xB1))));
}

// Stores the low bytes of sixteen integers in [-128, 127].
inline void store_bytes(std::int8_t* p, __m256i lo, __m256i hi) {
  // packs works within 128-bit halves; the permutation restores the order.
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(lo, hi), 0xD8);
  const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}
inline std::int32_t sum_integers(__m256i lo, __m256i hi) {
  const __m256i eight = _mm256_add_epi32(lo, hi);
  const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  const __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
  return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xB1)));
}

// Rounds to int8, stores 16 values, returns their sum. Lanes lie in [-127, 127].
inline std::int32_t store_int8(std::int8_t* p, Vec a) {
  const __m256i lo = _mm256_cvtps_epi32(a.lo);
  const __m256i hi = _mm256_cvtps_epi32(a.hi);
  store_bytes(p, lo, hi);
  return sum_integers(lo, hi);
}
// Rounds to 15 bits, stores them as multiples of 128 and what is left, returns their sum. Lanes lie in
// [-16256, 16256].
inline std::int32_t store_planes(std::int8_t* high, std::int8_t* low, Vec a) {
  const __m256i lo = _mm256_cvtps_epi32(a.lo);
  const __m256i hi = _mm256_cvtps_epi32(a.hi);
  const __m256i half = _mm256_set1_epi32(64);
  const __m256i nearest_lo = _mm256_srai_epi32(_mm256_add_epi32(lo, half), 7);
  const __m256i nearest_hi = _mm256_srai_epi32(_mm256_add_epi32(hi, half), 7);
  store_bytes(high, nearest_lo, nearest_hi);
  store_bytes(low, _mm256_sub_epi32(lo, _mm256_slli_epi32(nearest_lo, 7)),
              _mm256_sub_epi32(hi, _mm256_slli_epi32(nearest_hi, 7)));
  return sum_integers(lo, hi);
}

// Eight vectors of eight, transposed.
inline void transpose_eight(__m256 (&v)[8]) {
  __m256 quads[8];
  for (int i = 0; i < 8; i += 4) {
    for (int j = 0; j < 2; ++j) {
      // Pairs of columns 2j and 2j + 1 of each 128-bit half.
      const __m256 a = j == 0 ? _mm256_unpacklo_ps(v[i], v[i + 1]) : _mm256_unpackhi_ps(v[i], v[i + 1]);
      const __m256 b =
          j == 0 ? _mm256_unpacklo_ps(v[i + 2], v[i + 3]) : _mm256_unpackhi_ps(v[i + 2], v[i + 3]);
      quads[i + 2 * j] = _mm256_castpd_ps(_mm256_unpacklo_pd(_mm256_castps_pd(a), _mm256_castps_pd(b)));
      quads[i + 2 * j + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(_mm256_castps_pd(a), _mm256_castps_pd(b)));
    }
  }
  for (int j = 0; j < 4; ++j) {
    v[j] = _mm256_permute2f128_ps(quads[j], quads[4 + j], 0x20);
    v[4 + j] = _mm256_permute2f128_ps(quads[j], quads[4 + j], 0x31);
  }
}

// Sixteen vectors as a square: lane j of vector i goes to lane i of vector j. By quarters of eight.
inline void transpose(Vec (&v)[16]) {
  __m256 q[2][2][8];  // [rows 8a..][columns 8b..]
  for (int i = 0; i < 16; ++i) {
    q[i / 8][0][i % 8] = v[i].lo;
    q[i / 8][1][i % 8] = v[i].hi;
  }
  for (auto& half : q) {
    for (auto& quarter : half) transpose_eight(quarter);
  }
  for (int i = 0; i < 16; ++i) v[i] = {q[0][i / 8][i % 8], q[1][i / 8][i % 8]};
}

// The four activations from `p` on, in every lane.
inline __m256i broadcast4(const std::int8_t* p) {
  std::int32_t four;
  __builtin_memcpy(&four, p, sizeof(four));
  return _mm256_set1_epi32(four);
}
