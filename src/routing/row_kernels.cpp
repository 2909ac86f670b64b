#include "routing/row_kernels.h"

#include "base/check.h"
#include "base/cpu_info.h"
#include "routing/row_kernels_tables.h"

namespace tagalong::routing {

bool available(RouteIsa isa) {
  switch (isa) {
    case RouteIsa::kAvx2:
      return base::detect_cpu().avx2_fma;
    case RouteIsa::kAvx512:
      return base::detect_cpu().avx512;
    case RouteIsa::kBest:
    case RouteIsa::kScalar:
      break;
  }
  return true;
}

const RowKernels& row_kernels(RouteIsa isa) {
  CHECK(available(isa), "instruction set {} is not that of this CPU", static_cast<int>(isa));
  switch (isa) {
    case RouteIsa::kScalar:
      return kScalarRowKernels;
    case RouteIsa::kAvx2:
      return kAvx2RowKernels;
    case RouteIsa::kAvx512:
      return kAvx512RowKernels;
    case RouteIsa::kBest:
      break;
  }
  const base::CpuInfo cpu = base::detect_cpu();
  return cpu.avx512 ? kAvx512RowKernels : cpu.avx2_fma ? kAvx2RowKernels : kScalarRowKernels;
}

}  // namespace tagalong::routing
