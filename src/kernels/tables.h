// The tables by instruction set. Only select.cpp and tests name them; everybody else receives a Kernels.
// A table may be called only on a CPU that has its instructions.
#pragma once

#include "kernels/kernels.h"

namespace tagalong::kernels {

const Kernels& scalar_kernels(Compute compute = Compute::kFast);
const Kernels& avx2_kernels(Compute compute);         // AVX2, FMA, F16C
const Kernels& avx2_vnni_kernels(Compute compute);    // the same and AVX-VNNI
const Kernels& avx512_vnni_kernels(Compute compute);  // AVX-512 F, BW, VL, DQ, VNNI
const Kernels& avx512_kernels(Compute compute);       // the same and VBMI

}  // namespace tagalong::kernels
