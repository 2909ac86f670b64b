// The 16-lane vector of generic/kernels.inl as one zmm register. Included inside a begin.h region.

struct Vec {
  __m512 v;
};

// Rows of a float tile: eight running sums, more than the latency of an addition asks for.
inline constexpr int kFloatRows = 4;

// Vectors side by side in a product of generic/attention.inl: with four heads, sixteen running sums, the four
// vectors and a broadcast in the 32 registers.
inline constexpr int kPanelVecs = 4;

inline Vec load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline void store(float* p, Vec a) { _mm512_storeu_ps(p, a.v); }
inline Vec broadcast(float x) { return {_mm512_set1_ps(x)}; }
inline Vec operator+(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Vec operator-(Vec a, Vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Vec operator*(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Vec operator/(Vec a, Vec b) { return {_mm512_div_ps(a.v, b.v)}; }
inline Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline Vec max(Vec a, Vec b) { return {_mm512_max_ps(a.v, b.v)}; }
inline Vec min(Vec a, Vec b) { return {_mm512_min_ps(a.v, b.v)}; }
inline Vec round_even(Vec a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
// 2^n for whole n in [-126, 127].
inline Vec power_of_two(Vec n) {
  const __m512i exponent = _mm512_add_epi32(_mm512_cvtps_epi32(n.v), _mm512_set1_epi32(127));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(exponent, 23))};
}

inline Vec load_bf16(const std::byte* p) {
  const __m512i bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(bits, 16))};
}
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
  return {_mm512_mul_ps(_mm512_cvtph_ps(halves), _mm512_set1_ps(256.0F))};
}
// The same codes where none is NaN, times 2^-8: the sign extended and the code shifted, bit 14 is all there
// is to clear.
inline Vec load_small_e4m3(const std::byte* p) {
  const __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  const __m256i halves =
      _mm256_and_si256(_mm256_slli_epi16(wide, 7), _mm256_set1_epi16(static_cast<short>(0xBFFF)));
  return {_mm512_cvtph_ps(halves)};
}
// Sixteen pairs of bf16: the low halves of the lanes, and the high ones.
inline void load_bf16_pairs(const std::byte* p, Vec& low, Vec& high) {
  const __m512i bits = _mm512_loadu_si512(p);
  low.v = _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16));
  high.v = _mm512_castsi512_ps(_mm512_and_si512(bits, _mm512_set1_epi32(static_cast<int>(0xFFFF0000U))));
}

// The tree of scalar::Lanes::sum.
inline float sum(Vec a) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

// The tree of scalar::Lanes::largest.
inline float largest(Vec a) {
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

// Largest |lane| as its bits, so that NaN and infinity rank above all numbers.
inline std::uint32_t largest_magnitude_bits(Vec a) {
  return _mm512_reduce_max_epu32(_mm512_and_si512(_mm512_castps_si512(a.v), _mm512_set1_epi32(0x7FFFFFFF)));
}

// Rounds to int8, stores 16 values, returns their sum. Lanes lie in [-127, 127].
inline std::int32_t store_int8(std::int8_t* p, Vec a) {
  const __m512i q = _mm512_cvtps_epi32(a.v);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(q));
  return _mm512_reduce_add_epi32(q);
}
// Rounds to 15 bits, stores them as multiples of 128 and what is left, returns their sum. Lanes lie in
// [-16256, 16256].
inline std::int32_t store_planes(std::int8_t* high, std::int8_t* low, Vec a) {
  const __m512i q = _mm512_cvtps_epi32(a.v);
  const __m512i nearest = _mm512_srai_epi32(_mm512_add_epi32(q, _mm512_set1_epi32(64)), 7);
  const __m512i rest = _mm512_sub_epi32(q, _mm512_slli_epi32(nearest, 7));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(high), _mm512_cvtepi32_epi8(nearest));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(low), _mm512_cvtepi32_epi8(rest));
  return _mm512_reduce_add_epi32(q);
}

// Sixteen vectors as a square: lane j of vector i goes to lane i of vector j.
inline void transpose(Vec (&v)[16]) {
  __m512 pairs[16];
  for (int i = 0; i < 16; i += 2) {
    pairs[i] = _mm512_unpacklo_ps(v[i].v, v[i + 1].v);
    pairs[i + 1] = _mm512_unpackhi_ps(v[i].v, v[i + 1].v);
  }
  // quads[4g + j]: in each 128-bit part p, column 4p + j of rows 4g..4g + 3.
  __m512 quads[16];
  for (int i = 0; i < 16; i += 4) {
    for (int j = 0; j < 2; ++j) {
      const __m512d a = _mm512_castps_pd(pairs[i + j]);
      const __m512d b = _mm512_castps_pd(pairs[i + j + 2]);
      quads[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
      quads[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
    }
  }
  for (int j = 0; j < 4; ++j) {
    const __m512 even_low = _mm512_shuffle_f32x4(quads[j], quads[4 + j], 0x88);
    const __m512 odd_low = _mm512_shuffle_f32x4(quads[j], quads[4 + j], 0xDD);
    const __m512 even_high = _mm512_shuffle_f32x4(quads[8 + j], quads[12 + j], 0x88);
    const __m512 odd_high = _mm512_shuffle_f32x4(quads[8 + j], quads[12 + j], 0xDD);
    v[j].v = _mm512_shuffle_f32x4(even_low, even_high, 0x88);
    v[4 + j].v = _mm512_shuffle_f32x4(odd_low, odd_high, 0x88);
    v[8 + j].v = _mm512_shuffle_f32x4(even_low, even_high, 0xDD);
    v[12 + j].v = _mm512_shuffle_f32x4(odd_low, odd_high, 0xDD);
  }
}
