#include "base/cpu_info.h"

#include <cpuid.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <set>
#include <string>
#include <system_error>
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

constexpr double kNoQuota = std::numeric_limits<double>::infinity();

// quota / period of one group's folder. Version 2 has both in one file, with "max" for no limit; version 1
// has two files, with -1.
double quota_of(const std::filesystem::path& group) {
  std::string quota;
  double micros = 0;
  double period = 0;
  if (std::ifstream file(group / "cpu.max"); file >> quota >> period) {
    const auto [end, error] = std::from_chars(quota.data(), quota.data() + quota.size(), micros);
    if (error != std::errc()) return kNoQuota;
  } else {
    std::ifstream(group / "cpu.cfs_quota_us") >> micros;
    std::ifstream(group / "cpu.cfs_period_us") >> period;
  }
  return micros > 0 && period > 0 ? micros / period : kNoQuota;
}

// The smallest quota on the way from root/group up to root. A container may be told a path that it cannot
// see; its own limit then lies in the root.
double smallest_quota(const std::filesystem::path& root, const std::filesystem::path& group) {
  double quota = quota_of(root);
  std::filesystem::path folder = root;
  for (const auto& name : group.relative_path()) {
    folder /= name;
    quota = std::min(quota, quota_of(folder));
  }
  return quota;
}

}  // namespace

CpuInfo detect_cpu() {
  CpuInfo info;
  info.name = brand();
  info.l3_bytes = l3_size();
  const Leaf one = cpuid(1);
  const auto bits = [&one](int from, unsigned mask) { return static_cast<int>((one.eax >> from) & mask); };
  // The extended fields count only for the families that ran out of numbers.
  info.family = bits(8, 0xF) + (bits(8, 0xF) == 0xF ? bits(20, 0xFF) : 0);
  info.model = bits(4, 0xF) + (bits(8, 0xF) == 0xF || bits(8, 0xF) == 6 ? bits(16, 0xF) << 4 : 0);
  info.stepping = bits(0, 0xF);
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

std::vector<int> physical_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof(mask), &mask) != 0) return {0};
  std::set<std::pair<int, int>> known;
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &mask)) continue;
    const std::string topology = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    int package = 0;
    int core = cpu;
    std::ifstream(topology + "physical_package_id") >> package;
    if (!(std::ifstream(topology + "core_id") >> core)) core = cpu;
    if (known.emplace(package, core).second) cpus.push_back(cpu);
  }
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

double cgroup_quota(const std::filesystem::path& memberships, const std::filesystem::path& root) {
  double quota = quota_of(root);
  std::ifstream file(memberships);
  // ID:CONTROLLERS:PATH; version 2 has no controllers.
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      quota = std::min(quota, smallest_quota(root, group));
    } else if (("," + controllers + ",").find(",cpu,") != std::string::npos) {
      quota =
          std::min({quota, smallest_quota(root / "cpu", group), smallest_quota(root / controllers, group)});
    }
  }
  return quota;
}

int usable_cores() {
  const double quota = std::floor(cgroup_quota("/proc/self/cgroup", "/sys/fs/cgroup"));
  return static_cast<int>(
      std::clamp(static_cast<double>(physical_cores().size()), 1.0, std::max(1.0, quota)));
}

}  // namespace tagalong::base
