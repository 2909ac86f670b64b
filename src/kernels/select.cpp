#include "kernels/select.h"

#include <array>
#include <string>

#include "base/cpu_info.h"
#include "base/error.h"
#include "kernels/tables.h"

namespace tagalong::kernels {

namespace {

struct Candidate {
  const Kernels& (*table)();
  bool (*runs_on)(const base::CpuInfo&);
  std::string_view needs;
};

// Best first.
constexpr std::array<Candidate, 3> kCandidates{{
    {avx512_kernels,
     [](const base::CpuInfo& cpu) { return cpu.avx512 && cpu.avx512_vnni && cpu.avx512_vbmi; },
     "AVX-512 with VNNI and VBMI"},
    {avx2_kernels, [](const base::CpuInfo& cpu) { return cpu.avx2_fma; }, "AVX2 with FMA and F16C"},
    {scalar_kernels, [](const base::CpuInfo&) { return true; }, "nothing"},
}};

}  // namespace

const Kernels& select_kernels(std::string_view isa) {
  const base::CpuInfo cpu = base::detect_cpu();
  std::string names;
  for (const Candidate& candidate : kCandidates) {
    const Kernels& table = candidate.table();
    const bool runs = candidate.runs_on(cpu);
    if (isa == "auto" && runs) return table;
    if (isa == table.name) {
      if (runs) return table;
      throw base::input_error("instruction set '{}' needs {}, which this CPU ({}) lacks", isa,
                              candidate.needs, cpu.name);
    }
    names += std::string(table.name) + ", ";
  }
  throw base::input_error("instruction set '{}' is not one of {}auto", isa, names);
}

std::vector<const Kernels*> available_kernels() {
  const base::CpuInfo cpu = base::detect_cpu();
  std::vector<const Kernels*> tables;
  for (const Candidate& candidate : kCandidates) {
    if (candidate.runs_on(cpu)) tables.push_back(&candidate.table());
  }
  return tables;
}

}  // namespace tagalong::kernels
