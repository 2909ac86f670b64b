// The AVX-512 table of CPUs without VBMI (Cascade Lake, Cooper Lake): nibbles are looked up by vpshufb.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/attention.h"
#include "kernels/generic/unroll.h"
#include "kernels/kernels.h"
#include "kernels/nvfp4_head.h"
#include "kernels/tables.h"

#include "kernels/avx512/begin_vnni.h"

namespace tagalong::kernels {

namespace avx512_vnni {

namespace {

#include "kernels/avx512/vec.inl"
#include "kernels/generic/tiles.inl"

#include "kernels/generic/kernels.inl"

#include "kernels/generic/attention.inl"

// The entries of `table` that the low and the high nibbles of 64 bytes name.
inline void decode_nibbles(__m512i bytes, __m512i table, __m512i& low, __m512i& high) {
  const __m512i mask = _mm512_set1_epi8(0xF);
  low = _mm512_shuffle_epi8(table, _mm512_and_si512(bytes, mask));
  high = _mm512_shuffle_epi8(table, _mm512_and_si512(_mm512_srli_epi16(bytes, 4), mask));
}

#include "kernels/avx512/tiles.inl"

#include "kernels/generic/table.inl"

constexpr Kernels kFast = make_table<Compute::kFast>("avx512_vnni");
constexpr Kernels kAccurate = make_table<Compute::kAccurate>("avx512_vnni");

}  // namespace
}  // namespace avx512_vnni

const Kernels& avx512_vnni_kernels(Compute compute) {
  return compute == Compute::kFast ? avx512_vnni::kFast : avx512_vnni::kAccurate;
}

}  // namespace tagalong::kernels

#include "kernels/generic/end.h"
