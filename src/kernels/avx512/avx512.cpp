// The AVX-512 table: the generic kernels over zmm, and the integer tiles by vpermb and vpdpbusd.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/attention.h"
#include "kernels/generic/unroll.h"
#include "kernels/kernels.h"
#include "kernels/nvfp4_head.h"
#include "kernels/tables.h"

#include "kernels/avx512/begin.h"

namespace tagalong::kernels {

namespace avx512 {

namespace {

#include "kernels/avx512/vec.inl"
#include "kernels/generic/tiles.inl"

#include "kernels/generic/kernels.inl"

#include "kernels/generic/attention.inl"

// The entries of `table` that the low and the high nibbles of 64 bytes name. vpermb looks at the low six bits
// of an index, and the table repeats every 16, so the high nibble need not be masked off.
inline void decode_nibbles(__m512i bytes, __m512i table, __m512i& low, __m512i& high) {
  low = _mm512_permutexvar_epi8(bytes, table);
  high = _mm512_permutexvar_epi8(_mm512_srli_epi16(bytes, 4), table);
}

#include "kernels/avx512/tiles.inl"

#include "kernels/generic/table.inl"

constexpr Kernels kFast = make_table<Compute::kFast>("avx512");
constexpr Kernels kAccurate = make_table<Compute::kAccurate>("avx512");

}  // namespace
}  // namespace avx512

const Kernels& avx512_kernels(Compute compute) {
  return compute == Compute::kFast ? avx512::kFast : avx512::kAccurate;
}

}  // namespace tagalong::kernels

#include "kernels/generic/end.h"
