#include "base/mapped_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace tagalong::base {
namespace {

struct MappedFileTest : testing::Test {
  std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "tagalong_mapped_file";
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

TEST_F(MappedFileTest, AnEmptyFileIsEmpty) {
  std::ofstream(folder / "empty").close();
  EXPECT_EQ(read_text_file(folder / "empty"), "");
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
