// What this CPU can do and how much of it this process may use. Detected once per call, nothing is cached.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace tagalong::base {

struct CpuInfo {
  std::string name;  // as the vendor prints it
  int family = 0;
  int model = 0;
  int stepping = 0;
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

// The first CPU of each physical core in the affinity mask, ascending. Never empty.
std::vector<int> physical_cores();

// CPUs' worth of time that the control groups of this process allow it, infinity without a quota: the
// smallest of the group's and its ancestors', version 2 or 1. A quota that cannot be read is none.
// memberships: /proc/self/cgroup; root: /sys/fs/cgroup.
double cgroup_quota(const std::filesystem::path& memberships, const std::filesystem::path& root);

// Threads worth starting: one for each physical core, and no more than the whole CPUs of the quota. One more
// thread than the quota carries would be stopped in the middle of each period, and all others wait for it.
int usable_cores();

}  // namespace tagalong::base
