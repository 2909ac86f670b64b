#include "base/numa.h"

#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <numeric>
#include <string>

#include "base/cpu_info.h"

namespace tagalong::base {

static bool operator==(const NumaNode& a, const NumaNode& b) { return a.id == b.id && a.cpus == b.cpus; }

namespace {

// A folder like /sys/devices/system/node of a made-up machine.
class NumaNodes : public testing::Test {
 protected:
  NumaNodes() { std::filesystem::create_directories(root_); }
  ~NumaNodes() override { std::filesystem::remove_all(root_); }

  void node(const std::string& name, const std::string& cpulist) const {
    std::filesystem::create_directories(root_ / name);
    std::ofstream(root_ / name / "cpulist") << cpulist << "\n";
  }
  std::vector<NumaNode> nodes(const std::vector<int>& cpus) const { return numa_nodes(cpus, root_); }

  std::filesystem::path root_ =
      std::filesystem::temp_directory_path() / ("tagalong_numa_" + std::to_string(getpid()));
};

TEST_F(NumaNodes, HaveTheCpusThatMayBeUsed) {
  node("node0", "0-3,8-11");
  node("node1", "4-7,12-15");
  EXPECT_EQ(nodes({0, 1, 2, 3, 4, 5, 6, 7}), (std::vector<NumaNode>{{0, {0, 1, 2, 3}}, {1, {4, 5, 6, 7}}}));
  EXPECT_EQ(nodes({3, 8, 12}), (std::vector<NumaNode>{{0, {3, 8}}, {1, {12}}}));
  EXPECT_EQ(nodes({5, 6}), (std::vector<NumaNode>{{1, {5, 6}}}));
}

TEST_F(NumaNodes, AreAscendingAndMayHaveGapsAndMemoryAlone) {
  node("node10", "2");
  node("node2", "1");
  node("node0", "0");
  node("node3", "");
  node("power", "1");  // not a node
  EXPECT_EQ(nodes({0, 1, 2}), (std::vector<NumaNode>{{0, {0}}, {2, {1}}, {10, {2}}}));
}

TEST_F(NumaNodes, AreOneWhereTheFilesDoNotPlaceEachCpuOnce) {
  const std::vector<NumaNode> one{{0, {0, 1, 2, 3}}};
  EXPECT_EQ(numa_nodes(std::vector{0, 1, 2, 3}, root_ / "missing"), one);
  EXPECT_EQ(nodes({0, 1, 2, 3}), one);
  node("node0", "0-1");
  EXPECT_EQ(nodes({0, 1, 2, 3}), one);  // 2 and 3 are nowhere
  node("node1", "1-3");
  EXPECT_EQ(nodes({0, 1, 2, 3}), one);  // 1 is on both
  node("node1", "2,3");
  EXPECT_EQ(nodes({0, 1, 2, 3}).size(), 2U);
  for (const char* list : {"2-", "-3", "x", "2..3", "3-2", ",,", "2,-3", "99999999999-3"}) {
    node("node1", list);
    EXPECT_EQ(nodes({0, 1, 2, 3}), one) << list;
  }
}

TEST(Numa, EveryCoreOfThisMachineIsOnOneNode) {
  const std::vector<int> cores = physical_cores();
  std::size_t found = 0;
  for (const NumaNode& node : numa_nodes(cores)) found += node.cpus.size();
  EXPECT_EQ(found, cores.size());
}

TEST(Numa, MemoryPrefersTheNodeAskedFor) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* data = mmap(nullptr, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(data, MAP_FAILED);
  const int node = numa_nodes(physical_cores()).back().id;
  const int error = prefer_node(data, 4 * page, node);
  int policy = -1;
  std::array<unsigned long, 16> mask{};
  const long told = syscall(SYS_get_mempolicy, &policy, mask.data(), 1024, data, MPOL_F_ADDR);
  if (error == 0 && told == 0) {
    EXPECT_EQ(policy, MPOL_PREFERRED);
    EXPECT_EQ(mask[static_cast<std::size_t>(node) / 64], 1UL << (node % 64));
    EXPECT_NE(prefer_node(data, 4 * page, 1023), 0) << "no machine has this node";
  } else {
    EXPECT_TRUE(error == EPERM || error == ENOSYS || told != 0) << error;  // a container
  }
  static_cast<unsigned char*>(data)[3 * page] = 1;
  munmap(data, 4 * page);
}

}  // namespace
}  // namespace tagalong::base
