#include "version.h"

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <vector>

#include "base/cpu_info.h"
#include "base/numa.h"
#include "build_info.h"
#include "commands.h"
#include "kernels/select.h"

namespace tagalong::tools {

std::string version_text() {
  std::string runnable;
  for (const kernels::Kernels* table : kernels::available_kernels()) {
    runnable += (runnable.empty() ? "" : ", ") + std::string(table->name);
  }
  const std::vector<int> cores = base::physical_cores();
  const std::vector<base::NumaNode> nodes = base::numa_nodes(cores);
  std::string by_node;
  for (const base::NumaNode& node : nodes) {
    by_node += fmt::format("{}node {}: {}", by_node.empty() ? "" : ", ", node.id, node.cpus.size());
  }
  return fmt::format(
      "tagalong {} (commit {})\n"
      "built with {}, {}\n"
      "kernels: {} on this CPU ({})\n"
      "cores: {} on {} NUMA node{} ({})",
      kVersion, kCommit, kCompiler, kBuildType, runnable, base::detect_cpu().name, cores.size(), nodes.size(),
      nodes.size() == 1 ? "" : "s", by_node);
}

void add_version_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("version", "Print version, commit, compiler and instruction sets");
  command->callback([] { fmt::print("{}\n", version_text()); });
}

}  // namespace tagalong::tools
