// The nodes of a machine: CPUs and the memory that is near them. Read from the kernel's files each time,
// nothing is cached. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace tagalong::base {

// Whether threads and weights are kept together on the machine's nodes. No result depends on it.
enum class Numa : std::uint8_t { kAuto, kOff };

struct NumaNode {
  int id;                 // the kernel's number
  std::vector<int> cpus;  // ascending
};

// The nodes on which `cpus` lie, ascending, each with its share of them. One node with all of them where the
// files do not put every CPU on exactly one node, as on kernels that know no nodes.
std::vector<NumaNode> numa_nodes(std::span<const int> cpus,
                                 const std::filesystem::path& root = "/sys/devices/system/node");

// Asks for pages of the node behind memory that has not been written yet; when the node has none left, the
// kernel takes others. `data` begins a page. Returns 0 or the system's error number: containers often forbid
// it.
int prefer_node(void* data, std::size_t bytes, int node);

}  // namespace tagalong::base
