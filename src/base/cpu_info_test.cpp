#include "base/cpu_info.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <limits>
#include <string>

namespace tagalong::base {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

// A folder with the files of a made-up control group hierarchy.
class CgroupQuota : public testing::Test {
 protected:
  CgroupQuota() { std::filesystem::create_directories(root_); }
  ~CgroupQuota() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  double quota(const std::string& memberships) const {
    std::ofstream(folder_ / "memberships") << memberships;
    return cgroup_quota(folder_ / "memberships", root_);
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("tagalong_cgroup_" + std::to_string(getpid()));
  std::filesystem::path root_ = folder_ / "root";
};

TEST_F(CgroupQuota, IsTheSmallestOnTheWayUp) {
  EXPECT_EQ(quota("0::/a/b\n"), kNone);
  write("a/cpu.max", "300000 100000\n");
  write("a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(quota("0::/a/b\n"), 3.0);
  EXPECT_EQ(quota("0::/\n"), kNone);
  write("a/b/cpu.max", "150000 100000\n");
  EXPECT_EQ(quota("0::/a/b\n"), 1.5);
  EXPECT_EQ(quota("0::/a\n"), 3.0);
}

TEST_F(CgroupQuota, IsFoundInAContainersRoot) {
  write("cpu.max", "200000 100000\n");
  EXPECT_EQ(quota("0::/not/to/be/seen\n"), 2.0);
  EXPECT_EQ(quota(""), 2.0);
}

TEST_F(CgroupQuota, OfVersionOne) {
  write("cpu/x/cpu.cfs_quota_us", "400000\n");
  write("cpu/x/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota("5:memory:/y\n4:cpu,cpuacct:/x\n"), 4.0);
  write("cpu/x/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(quota("4:cpu,cpuacct:/x\n"), kNone);
}

TEST_F(CgroupQuota, ThatCannotBeReadIsNone) {
  for (const char* text : {"", "many 100000", "100000", "100000 0", "-5 100000", "x"}) {
    write("cpu.max", text);
    EXPECT_EQ(quota("0::/\nnonsense\n"), kNone) << text;
  }
}

TEST(CpuInfo, CoresAreDistinctAndEnoughForTheThreads) {
  const std::vector<int> cores = physical_cores();
  ASSERT_FALSE(cores.empty());
  for (std::size_t i = 1; i < cores.size(); ++i) EXPECT_LT(cores[i - 1], cores[i]);
  EXPECT_GE(usable_cores(), 1);
  EXPECT_LE(usable_cores(), static_cast<int>(cores.size()));
}

}  // namespace
}  // namespace tagalong::base
