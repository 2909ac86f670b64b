// The AVX2 table: the generic kernels over pairs of ymm, and the integer tiles by vpshufb and vpmaddubsw.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/attention.h"
#include "kernels/generic/unroll.h"
#include "kernels/kernels.h"
#include "kernels/nvfp4_head.h"
#include "kernels/tables.h"

#include "kernels/avx2/begin.h"

namespace tagalong::kernels {

namespace avx2 {

namespace {

#include "kernels/avx2/vec.inl"
#include "kernels/generic/tiles.inl"

#include "kernels/generic/kernels.inl"

#include "kernels/generic/attention.inl"

struct Products {
  // What bytes have added before a product: nothing, see add_bytes.
  static constexpr std::int32_t kBytesOffset = 0;
  static __m256i prepare_bytes(__m256i w) { return w; }

  // `sum` plus a group of codes times 16 activations. Four products of at most 28 * 127 twice add up to
  // 28,448: sixteen-bit sums cannot saturate.
  static __m256i add_codes(__m256i sum, const __m256i (&w)[4], const std::int8_t* x) {
    __m256i pairs = _mm256_maddubs_epi16(w[0], broadcast4(x));
    for (int q = 1; q < 4; ++q)
      pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(w[q], broadcast4(x + 4 * q)));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  // The same for signed bytes: vpmaddubsw wants an unsigned factor, and with an offset of 128 its pairs would
  // saturate, so the weight's sign moves to the activation. Pairs are at most 2 * 128 * 127 = 32,512.
  static __m256i add_bytes(__m256i sum, const __m256i (&w)[4], const std::int8_t* x) {
    for (int q = 0; q < 4; ++q) {
      const __m256i pairs =
          _mm256_maddubs_epi16(_mm256_abs_epi8(w[q]), _mm256_sign_epi8(broadcast4(x + 4 * q), w[q]));
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    }
    return sum;
  }
  static __m256i accumulate(__m256i sum, __m256i a) {
    return _mm256_add_epi16(sum, _mm256_maddubs_epi16(a, a));
  }
};

#include "kernels/avx2/tiles.inl"

#include "kernels/generic/table.inl"

constexpr Kernels kFast = make_table<Compute::kFast>("avx2");
constexpr Kernels kAccurate = make_table<Compute::kAccurate>("avx2");

}  // namespace
}  // namespace avx2

const Kernels& avx2_kernels(Compute compute) {
  return compute == Compute::kFast ? avx2::kFast : avx2::kAccurate;
}

}  // namespace tagalong::kernels

#include "kernels/generic/end.h"
