#include "version.h"

#include <fmt/format.h>

#include <cstdio>

#include "base/cpu_info.h"
#include "build_info.h"
#include "commands.h"
#include "kernels/select.h"

namespace tagalong::tools {

std::string version_text() {
  std::string runnable;
  for (const kernels::Kernels* table : kernels::available_kernels()) {
    runnable += (runnable.empty() ? "" : ", ") + std::string(table->name);
  }
  return fmt::format(
      "tagalong {} (commit {})\n"
      "built with {}, {}\n"
      "kernels: {} on this CPU ({})",
      kVersion, kCommit, kCompiler, kBuildType, runnable, base::detect_cpu().name);
}

void add_version_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("version", "Print version, commit, compiler and instruction sets");
  command->callback([] { fmt::print("{}\n", version_text()); });
}

}  // namespace tagalong::tools
