#include "kernels/select.h"

#include <array>
#include <string>

#include "base/cpu_info.h"
#include "base/error.h"
#include "kernels/tables.h"

namespace tagalong::kernels {

namespace {

struct Candidate {
  const Kernels& (*table)(Compute);
  bool (*runs_on)(const base::CpuInfo&);
  std::string_view needs;
};

// Best first.
constexpr std::array<Candidate, 5> kCandidates{{
    {avx512_kernels,
     [](const base::CpuInfo& cpu) { return cpu.avx512 && cpu.avx512_vnni && cpu.avx512_vbmi; },
     "AVX-512 with VNNI and VBMI"},
    {avx512_vnni_kernels, [](const base::CpuInfo& cpu) { return cpu.avx512 && cpu.avx512_vnni; },
     "AVX-512 with VNNI"},
    {avx2_vnni_kernels, [](const base::CpuInfo& cpu) { return cpu.avx2_fma && cpu.avx_vnni; },
     "AVX2 with FMA, F16C and AVX-VNNI"},
    {avx2_kernels, [](const base::CpuInfo& cpu) { return cpu.avx2_fma; }, "AVX2 with FMA and F16C"},
    {scalar_kernels, [](const base::CpuInfo&) { return true; }, "nothing"},
}};

}  // namespace

const Kernels& select_kernels(std::string_view isa, Compute compute) {
  return select_kernels(isa, compute, base::detect_cpu());
}

const Kernels& select_kernels(std::string_view isa, Compute compute, const base::CpuInfo& cpu) {
  std::string names;
  for (const Candidate& candidate : kCandidates) {
    const Kernels& table = candidate.table(compute);
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

std::vector<const Kernels*> available_kernels(Compute compute) {
  const base::CpuInfo cpu = base::detect_cpu();
  std::vector<const Kernels*> tables;
  for (const Candidate& candidate : kCandidates) {
    if (candidate.runs_on(cpu)) tables.push_back(&candidate.table(compute));
  }
  return tables;
}

Compute parse_compute(std::string_view text) {
  if (text == "fast") return Compute::kFast;
  if (text == "accurate") return Compute::kAccurate;
  throw base::input_error("compute class '{}' is not one of fast, accurate", text);
}

}  // namespace tagalong::kernels
