// The AVX2 table with products by the 256-bit vpdpbusd, for includers that define add_quads(), the instruction in
// the encoding that their CPUs have, and kName.

#include "kernels/avx2/vec.inl"
#include "kernels/generic/tiles.inl"
#include "kernels/generic/kernels.inl"

#include "kernels/generic/attention.inl"

struct Products {
  // Bytes are made unsigned by an offset, which the row's corrections take back.
  static constexpr std::int32_t kBytesOffset = 128;
  static __m256i prepare_bytes(__m256i w) { return _mm256_xor_si256(w, _mm256_set1_epi8(-128)); }

  // `sum` plus a group of unsigned weights times 16 activations.
  static __m256i add_codes(__m256i sum, const __m256i (&w)[4], const std::int8_t* x) {
    for (int q = 0; q < 4; ++q) sum = add_quads(sum, w[q], broadcast4(x + 4 * q));
    return sum;
  }
  static __m256i add_bytes(__m256i sum, const __m256i (&w)[4], const std::int8_t* x) {
    return add_codes(sum, w, x);
  }
  static __m256i accumulate(__m256i sum, __m256i a) { return add_quads(sum, a, a); }
};

#include "kernels/avx2/tiles.inl"

#include "kernels/generic/table.inl"

constexpr Kernels kFast = make_table<Compute::kFast>(kName);
constexpr Kernels kAccurate = make_table<Compute::kAccurate>(kName);
