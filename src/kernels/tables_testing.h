// The tables that tests of the product tiles compare with scalar: all that this CPU can run, and a stand-in
// for the encoding of an instruction that it may lack.
#pragma once

#include <vector>

#include "base/cpu_info.h"
#include "kernels/select.h"

namespace tagalong::kernels {

// The table "avx2_vnni" with vpdpbusd in AVX-512's encoding (avx2/avx2_evex_test.cpp). May be called only on
// a CPU with AVX-512 VL and VNNI.
const Kernels& avx2_evex_kernels(Compute compute);

inline std::vector<const Kernels*> tested_kernels(Compute compute = Compute::kFast) {
  std::vector<const Kernels*> tables = available_kernels(compute);
  const base::CpuInfo cpu = base::detect_cpu();
  if (cpu.avx512 && cpu.avx512_vnni) tables.push_back(&avx2_evex_kernels(compute));
  return tables;
}

}  // namespace tagalong::kernels
