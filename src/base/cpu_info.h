// What this CPU can do and how much of it this process may use. Detected once per call, nothing is cached.
#pragma once

#include <cstddef>
#include <string>

namespace tagalong::base {

struct CpuInfo {
  std::string name;       // as the vendor prints it
  bool avx2_fma = false;  // AVX2, FMA and F16C
  bool avx512 = false;    // F, BW, VL, DQ
  bool avx512_vnni = false;
  bool avx512_vbmi = false;
  bool avx512_bf16 = false;
  bool avx_vnni = false;
  std::size_t l3_bytes = 0;  // of the cache that the first CPU shares; 0: unknown
};

// Features are reported only if the operating system saves their registers.
CpuInfo detect_cpu();

// Threads worth starting: physical cores in the affinity mask, and no more than the cgroup's CPU quota.
int usable_cores();

}  // namespace tagalong::base
