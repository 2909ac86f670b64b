// The tables behind row_kernels(). Only the selecting file and the kernel files include this.
#pragma once

#include "routing/row_kernels.h"

namespace tagalong::routing {

extern const RowKernels kScalarRowKernels;
extern const RowKernels kAvx2RowKernels;
extern const RowKernels kAvx512RowKernels;

}  // namespace tagalong::routing
