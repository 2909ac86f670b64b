// The AVX2 table of CPUs with AVX-VNNI (Alder Lake and later, Zen 5): products by the 256-bit vpdpbusd.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/attention.h"
#include "kernels/generic/unroll.h"
#include "kernels/kernels.h"
#include "kernels/tables.h"

#include "kernels/avx2/begin_vnni.h"

namespace tagalong::kernels {

namespace avx2_vnni {

namespace {

#include "kernels/avx2/vec.inl"
#include "kernels/generic/kernels.inl"

#include "kernels/generic/attention.inl"

struct Products {
  // Bytes are made unsigned by an offset, which the row's corrections take back.
  static constexpr std::int32_t kBytesOffset = 128;
  static __m256i prepare_bytes(__m256i w) { return _mm256_xor_si256(w, _mm256_set1_epi8(-128)); }

  // `sum` plus a group of unsigned weights times 16 activations.
  static __m256i add_codes(__m256i sum, const __m256i (&w)[4], const std::int8_t* x) {
    for (int q = 0; q < 4; ++q) sum = _mm256_dpbusd_avx_epi32(sum, w[q], broadcast4(x + 4 * q));
    return sum;
  }
  static __m256i add_bytes(__m256i sum, const __m256i (&w)[4], const std::int8_t* x) {
    return add_codes(sum, w, x);
  }
  static __m256i accumulate(__m256i sum, __m256i a) { return _mm256_dpbusd_avx_epi32(sum, a, a); }
};

#include "kernels/avx2/tiles.inl"

#include "kernels/generic/table.inl"

constexpr Kernels kFast = make_table<Compute::kFast>("avx2_vnni");
constexpr Kernels kAccurate = make_table<Compute::kAccurate>("avx2_vnni");

}  // namespace
}  // namespace avx2_vnni

const Kernels& avx2_vnni_kernels(Compute compute) {
  return compute == Compute::kFast ? avx2_vnni::kFast : avx2_vnni::kAccurate;
}

}  // namespace tagalong::kernels

#include "kernels/generic/end.h"
