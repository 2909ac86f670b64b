#include "base/numa.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace tagalong::base {

namespace {

constexpr int kMaxNode = 1023;  // the kernel's own limit
constexpr std::string_view kPrefix = "node";

// All of `text` as a number that is not negative.
std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// Whether a list of the kernel's, such as "0-3,8,10-11", holds the CPU. What cannot be read holds nothing.
bool holds(std::string_view list, int cpu) {
  while (!list.empty()) {
    const std::string_view piece = list.substr(0, list.find(','));
    list.remove_prefix(std::min(piece.size() + 1, list.size()));
    const std::size_t dash = piece.find('-');
    const auto first = number(piece.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : number(piece.substr(dash + 1));
    if (first && last && *first <= cpu && cpu <= *last) return true;
  }
  return false;
}

}  // namespace

std::vector<NumaNode> numa_nodes(std::span<const int> cpus, const std::filesystem::path& root) {
  std::vector<NumaNode> nodes;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(root, error)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kPrefix)) continue;
    const auto id = number(std::string_view(name).substr(kPrefix.size()));
    if (!id || *id > kMaxNode) continue;
    std::string list;
    std::ifstream(entry.path() / "cpulist") >> list;
    NumaNode node{.id = *id, .cpus = {}};
    std::copy_if(cpus.begin(), cpus.end(), std::back_inserter(node.cpus),
                 [&list](int cpu) { return holds(list, cpu); });
    if (!node.cpus.empty()) nodes.push_back(std::move(node));
  }
  std::sort(nodes.begin(), nodes.end(), [](const NumaNode& a, const NumaNode& b) { return a.id < b.id; });
  std::vector<int> found;
  for (const NumaNode& node : nodes) found.insert(found.end(), node.cpus.begin(), node.cpus.end());
  std::sort(found.begin(), found.end());
  std::vector<int> wanted(cpus.begin(), cpus.end());
  std::sort(wanted.begin(), wanted.end());
  if (found != wanted) return {{.id = 0, .cpus = wanted}};
  return nodes;
}

int prefer_node(void* data, std::size_t bytes, int node) {
  constexpr int kBits = std::numeric_limits<unsigned long>::digits;
  std::array<unsigned long, (kMaxNode + 1) / kBits> mask{};
  mask[static_cast<std::size_t>(node / kBits)] = 1UL << (node % kBits);
  // The kernel takes one bit less than it is told of.
  return syscall(SYS_mbind, data, bytes, MPOL_PREFERRED, mask.data(), kMaxNode + 2, 0) == 0 ? 0 : errno;
}

}  // namespace tagalong::base
