// Chooses the kernel table, once, at start.
#pragma once

#include <string_view>
#include <vector>

#include "base/cpu_info.h"
#include "kernels/kernels.h"

namespace tagalong::kernels {

// isa: "auto", or the name of a table. Throws InputError for an unknown name, or for a table whose
// instructions this CPU lacks: an impossible wish is never silently replaced.
const Kernels& select_kernels(std::string_view isa, Compute compute = Compute::kFast);
// The same for another CPU than this one, for tests.
const Kernels& select_kernels(std::string_view isa, Compute compute, const base::CpuInfo& cpu);

// The tables of a class that this CPU can run, best first; scalar is always the last.
std::vector<const Kernels*> available_kernels(Compute compute = Compute::kFast);

// "fast" or "accurate". Throws InputError naming the value.
Compute parse_compute(std::string_view text);

}  // namespace tagalong::kernels
