// The tables behind row_kernels(). Only the selecting file and the kernel files include this.
#pragma once

#include "routing/row_kernels.h"

namespace tagalong::routing {

extern const RowKernels kScalarRowKernels;

}  // namespace tagalong::routing
