#include "base/cpu_info.h"

#include <cpuid.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <set>
#include <string>
#include <utility>

namespace tagalong::base {

namespace {

struct Leaf {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Leaf cpuid(unsigned leaf, unsigned subleaf = 0) {
  Leaf r;
  __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx);
  return r;
}

bool bit(unsigned word, int index) { return ((word >> index) & 1U) != 0; }

std::uint64_t enabled_state() {
  unsigned low = 0;
  unsigned high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (std::uint64_t{high} << 32) | low;
}

std::string brand() {
  char text[49] = {};
  for (unsigned i = 0; i < 3; ++i) {
    const Leaf r = cpuid(0x80000002U + i);
    std::memcpy(text + 16 * i, &r, 16);
  }
  std::string name(text);
  name.erase(name.find_last_not_of(' ') + 1);
  return name;
}

// The kernel's word on the size ("32768K"), not cpuid's: the latter tells a guest of the whole socket.
std::size_t l3_size() {
  std::size_t kilobytes = 0;
  std::ifstream("/sys/devices/system/cpu/cpu0/cache/index3/size") >> kilobytes;
  return kilobytes * 1024;
}

// CPUs of the affinity mask, counted once per physical core.
int physical_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof(mask), &mask) != 0) return 1;
  std::set<std::pair<int, int>> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &mask)) continue;
    const std::string topology = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    int package = 0;
    int core = cpu;
    std::ifstream(topology + "physical_package_id") >> package;
    if (!(std::ifstream(topology + "core_id") >> core)) core = cpu;
    cores.emplace(package, core);
  }
  return std::max<int>(1, static_cast<int>(cores.size()));
}

// Whole CPUs of the cgroup's quota (v2, then v1), or a large number without one.
int quota_cores() {
  constexpr int kNoQuota = 1 << 20;
  std::string quota;
  double period = 0;
  if (std::ifstream file("/sys/fs/cgroup/cpu.max"); file >> quota >> period) {
    if (quota == "max" || period <= 0) return kNoQuota;
    return std::max(1, static_cast<int>(std::ceil(std::stod(quota) / period)));
  }
  double micros = 0;
  if (std::ifstream("/sys/fs/cgroup/cpu/cpu.cfs_quota_us") >> micros && micros > 0 &&
      std::ifstream("/sys/fs/cgroup/cpu/cpu.cfs_period_us") >> period && period > 0) {
    return std::max(1, static_cast<int>(std::ceil(micros / period)));
  }
  return kNoQuota;
}

}  // namespace

CpuInfo detect_cpu() {
  CpuInfo info;
  info.name = brand();
  info.l3_bytes = l3_size();
  const Leaf one = cpuid(1);
  if (!bit(one.ecx, 27)) return info;  // the system does not save extended registers
  const std::uint64_t state = enabled_state();
  const bool ymm = (state & 0x6) == 0x6;
  const bool zmm = ymm && (state & 0xe0) == 0xe0;
  const Leaf seven = cpuid(7);
  const Leaf seven_one = seven.eax >= 1 ? cpuid(7, 1) : Leaf{};
  info.avx2_fma = ymm && bit(seven.ebx, 5) && bit(one.ecx, 12) && bit(one.ecx, 29);
  info.avx512 = zmm && info.avx2_fma && bit(seven.ebx, 16) && bit(seven.ebx, 30) && bit(seven.ebx, 31) &&
                bit(seven.ebx, 17);
  info.avx512_vnni = info.avx512 && bit(seven.ecx, 11);
  info.avx512_vbmi = info.avx512 && bit(seven.ecx, 1);
  info.avx512_bf16 = info.avx512 && bit(seven_one.eax, 5);
  info.avx_vnni = info.avx2_fma && bit(seven_one.eax, 4);
  return info;
}

int usable_cores() { return std::min(physical_cores(), quota_cores()); }

}  // namespace tagalong::base
