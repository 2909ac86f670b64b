// The tables by instruction set. Only select.cpp and tests name them; everybody else receives a Kernels.
// A table may be called only on a CPU that has its instructions.
#pragma once

#include "kernels/kernels.h"

namespace tagalong::kernels {

const Kernels& scalar_kernels();
const Kernels& avx2_kernels();    // AVX2, FMA, F16C
const Kernels& avx512_kernels();  // AVX-512 F, BW, VL, DQ, VNNI, VBMI

}  // namespace tagalong::kernels
