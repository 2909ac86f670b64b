#include "base/mapped_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"

namespace tagalong::base {
namespace {

struct MappedFileTest : testing::Test {
  std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("tagalong_mapped_file_" + std::to_string(::getpid()));
  void SetUp() override { std::filesystem::create_directories(folder); }
  void TearDown() override { std::filesystem::remove_all(folder); }
};

TEST_F(MappedFileTest, HoldsTheBytesOfTheFile) {
  std::ofstream(folder / "a") << "tag along";
  EXPECT_EQ(read_text_file(folder / "a"), "tag along");
  MappedFile first(folder / "a");
  MappedFile second(std::move(first));
  EXPECT_EQ(second.bytes().size(), 9U);
  EXPECT_EQ(first.bytes().size(), 0U);
}

// Bytes of files that this process holds in memory, from the kernel's count.
std::size_t resident_file_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t size = 0;
  std::size_t resident = 0;
  std::size_t shared = 0;
  statm >> size >> resident >> shared;
  return shared * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

TEST_F(MappedFileTest, ReleasedBytesLeaveMemoryAndCanBeReadAgain) {
  constexpr std::size_t kSize = std::size_t{16} << 20;
  std::ofstream(folder / "large") << std::string(kSize, 'x');
  const MappedFile file(folder / "large");
  const auto sum = [&] {
    std::size_t total = 0;
    for (const std::byte b : file.bytes()) total += static_cast<std::size_t>(b);
    return total;
  };
  EXPECT_EQ(sum(), kSize * 'x');
  const std::size_t before = resident_file_bytes();
  file.release(file.bytes().subspan(kSize / 2 - 5, 11));
  file.release(file.bytes());
  EXPECT_LE(resident_file_bytes() + kSize / 2, before);
  EXPECT_EQ(sum(), kSize * 'x');
}

TEST_F(MappedFileTest, AnEmptyFileIsEmpty) {
  std::ofstream(folder / "empty").close();
  EXPECT_EQ(read_text_file(folder / "empty"), "");
  const MappedFile file(folder / "empty");
  file.release(file.bytes());
}

TEST_F(MappedFileTest, ErrorsNameTheFile) {
  try {
    MappedFile file(folder / "missing");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("missing: cannot open: No such file"), std::string::npos);
  }
  EXPECT_THROW(MappedFile{folder}, InputError);
  std::ofstream(folder / "a") << "123456";
  EXPECT_THROW(read_text_file(folder / "a", 5), InputError);
}

}  // namespace
}  // namespace tagalong::base
