#include "routing/row_kernels.h"

#include "base/check.h"
#include "routing/row_kernels_tables.h"

namespace tagalong::routing {

bool available(RouteIsa isa) { return isa == RouteIsa::kBest || isa == RouteIsa::kScalar; }

const RowKernels& row_kernels(RouteIsa isa) {
  CHECK(available(isa), "instruction set {}", static_cast<int>(isa));
  return kScalarRowKernels;
}

}  // namespace tagalong::routing
