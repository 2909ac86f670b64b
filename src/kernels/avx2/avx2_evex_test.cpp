// The AVX-VNNI table once more, for tests only: with vpdpbusd as AVX-512 encodes it (VL and VNNI), so that a
// CPU which has that encoding and not the other tests every line of the tiles.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernels/attention.h"
#include "kernels/generic/unroll.h"
#include "kernels/kernels.h"
#include "kernels/nvfp4_head.h"
#include "kernels/tables_testing.h"

#include "kernels/avx512/begin_vnni.h"

namespace tagalong::kernels {

namespace avx2_evex {

namespace {

constexpr std::string_view kName = "avx2_vnni as EVEX";

// `sum` plus 32 unsigned weights times 32 activations, by fours.
inline __m256i add_quads(__m256i sum, __m256i w, __m256i x) { return _mm256_dpbusd_epi32(sum, w, x); }

#include "kernels/avx2/vnni_table.inl"

}  // namespace
}  // namespace avx2_evex

const Kernels& avx2_evex_kernels(Compute compute) {
  return compute == Compute::kFast ? avx2_evex::kFast : avx2_evex::kAccurate;
}

}  // namespace tagalong::kernels

#include "kernels/generic/end.h"
