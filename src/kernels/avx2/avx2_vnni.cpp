// The AVX2 table of CPUs with AVX-VNNI (Alder Lake and later, Zen 5): products by the 256-bit vpdpbusd.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernels/attention.h"
#include "kernels/generic/unroll.h"
#include "kernels/kernels.h"
#include "kernels/nvfp4_head.h"
#include "kernels/tables.h"

#include "kernels/avx2/begin_vnni.h"

namespace tagalong::kernels {

namespace avx2_vnni {

namespace {

constexpr std::string_view kName = "avx2_vnni";

// `sum` plus 32 unsigned weights times 32 activations, by fours.
inline __m256i add_quads(__m256i sum, __m256i w, __m256i x) { return _mm256_dpbusd_avx_epi32(sum, w, x); }

#include "kernels/avx2/vnni_table.inl"

}  // namespace
}  // namespace avx2_vnni

const Kernels& avx2_vnni_kernels(Compute compute) {
  return compute == Compute::kFast ? avx2_vnni::kFast : avx2_vnni::kAccurate;
}

}  // namespace tagalong::kernels

#include "kernels/generic/end.h"
