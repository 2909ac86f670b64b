#include "tune_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <sstream>

#include "base/error.h"

namespace tagalong::tools {
namespace {

const TuneMachine kMachine{.cpu = "Test CPU (R) 9 1-2-3", .topology = "cores 0,1", .isa = "avx512"};

class TuneStoreTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override {
    std::filesystem::permissions(folder_, std::filesystem::perms::owner_all);
    std::filesystem::remove_all(folder_);
  }

  static std::string text_of(const std::filesystem::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  // Files in the folder: what a failed write may leave behind.
  int files() const {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      count += entry.is_regular_file() ? 1 : 0;
    return count;
  }
  static std::string refusal(const std::function<void()>& call) {
    try {
      call();
    } catch (const base::InputError& error) {
      return error.what();
    }
    return "accepted";
  }

  static TuneRecords some_records() {
    TuneRecords records;
    records.huge_pages = false;
    records.shapes["a"][1] = {.tuning = {.row_tile = 2},
                              .microseconds = 10,
                              .default_microseconds = 11,
                              .spread = 0.125,
                              .bytes_per_second = 2.5e10,
                              .share_of_stream = 0.75,
                              .attention_microseconds = 12,
                              .attention_default_microseconds = 13};
    records.shapes["a"][16] = {.tuning = {.schedule = base::Schedule::kStealing, .prefetch = 4096}};
    return records;
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("tagalong_tune_" + std::to_string(getpid()));
  std::filesystem::path path_ = folder_ / "cpu.json";
  TuneStore store_{path_, kMachine};
};

TEST_F(TuneStoreTest, KeepsThePagesWhereNoneWereMeasured) {
  store_.merge({});
  EXPECT_EQ(store_.read().value().huge_pages, true);
  store_.merge(some_records());
  store_.merge({});
  EXPECT_EQ(store_.read().value().huge_pages, false);
}

TEST_F(TuneStoreTest, ReadsBackWhatWasWritten) {
  EXPECT_EQ(store_.read(), std::nullopt);
  store_.merge(some_records());
  const TuneRecords read = store_.read().value();
  EXPECT_EQ(read.huge_pages, false);
  ASSERT_EQ(read.shapes.size(), 1U);
  ASSERT_EQ(read.shapes.at("a").size(), 2U);
  const TuneEntry& entry = read.shapes.at("a").at(1);
  EXPECT_EQ(entry.tuning, (kernels::Tuning{.row_tile = 2}));
  EXPECT_EQ(entry.microseconds, 10);
  EXPECT_EQ(entry.default_microseconds, 11);
  EXPECT_EQ(entry.spread, 0.125);
  EXPECT_EQ(entry.bytes_per_second, 2.5e10);
  EXPECT_EQ(entry.share_of_stream, 0.75);
  EXPECT_EQ(entry.attention_microseconds, 12);
  EXPECT_EQ(entry.attention_default_microseconds, 13);
  EXPECT_EQ(read.shapes.at("a").at(16).tuning.prefetch, 4096);
  EXPECT_EQ(files(), 1);
}

// What was written before attention was tuned: the setting keeps its default, the times are not known.
TEST_F(TuneStoreTest, ReadsAFileWithoutAttention) {
  store_.merge(some_records());
  const std::regex attention(R"(,attention_tasks=[0-9]+|,\s*"attention_[a-z_]*": [0-9.]+)");
  const std::string text = std::regex_replace(text_of(path_), attention, "");
  ASSERT_EQ(text.find("attention"), std::string::npos) << text;
  std::ofstream(path_) << text;
  const TuneRecords read = store_.read().value();
  const TuneEntry& entry = read.shapes.at("a").at(1);
  EXPECT_EQ(entry.tuning, (kernels::Tuning{.row_tile = 2}));
  EXPECT_EQ(entry.share_of_stream, 0.75);
  EXPECT_EQ(entry.attention_microseconds, 0);
}

TEST_F(TuneStoreTest, KeepsWhatOthersAdded) {
  store_.merge(some_records());
  TuneRecords more;
  more.shapes["b"][4] = {.tuning = {.project_tiles = 2}};
  more.shapes["a"][1] = {.tuning = {.row_tile = 5}};
  store_.merge(more);
  const TuneRecords read = store_.read().value();
  EXPECT_EQ(read.shapes.at("a").at(1).tuning.row_tile, 5);
  EXPECT_EQ(read.shapes.at("a").at(16).tuning.prefetch, 4096);
  EXPECT_EQ(read.shapes.at("b").at(4).tuning.project_tiles, 2);
}

TEST_F(TuneStoreTest, NeverReadsOrOverwritesAnotherMachinesFile) {
  store_.merge(some_records());
  const std::string before = text_of(path_);
  const auto changed = [](auto change) {
    TuneMachine machine = kMachine;
    change(machine);
    return machine;
  };
  for (const TuneMachine& other : {changed([](TuneMachine& m) { m.cpu = "Other"; }),
                                   changed([](TuneMachine& m) { m.topology = "cores 0"; }),
                                   changed([](TuneMachine& m) { m.isa = "avx2"; })}) {
    const TuneStore store(path_, other);
    EXPECT_THAT(refusal([&] { store.read(); }), testing::HasSubstr("was not made on this machine"));
    EXPECT_THAT(refusal([&] { store.merge(some_records()); }), testing::HasSubstr("was not made on this"));
    EXPECT_EQ(text_of(path_), before);
  }
  // Another packing of weights, or a later form of the file.
  for (const char* field : {"\"pack\": ", "\"format\": "}) {
    std::string text = before;
    text.insert(text.find(field) + std::string(field).size(), "7");
    std::ofstream(path_) << text;
    EXPECT_THAT(refusal([&] { store_.merge(some_records()); }), testing::HasSubstr("by this version"));
    EXPECT_EQ(text_of(path_), text);
  }
}

TEST_F(TuneStoreTest, LeavesFilesAloneThatItCannotRead) {
  store_.merge(some_records());
  std::string wrong_value = text_of(path_);
  wrong_value.replace(wrong_value.find("row_tile=2"), 10, "row_tile=9");
  std::string wrong_rows = text_of(path_);
  wrong_rows.replace(wrong_rows.find("\"16\""), 4, "\"xx\"");
  std::string half = text_of(path_);
  half.resize(half.size() / 2);
  for (const std::string& text : {std::string("my notes\n"), std::string(), std::string("[1]"),
                                  std::string("{}"), wrong_value, wrong_rows, half}) {
    std::ofstream(path_) << text;
    EXPECT_THAT(refusal([&] { store_.read(); }),
                testing::HasSubstr(text == wrong_value ? "row_tile" : "cpu.json"))
        << text;
    EXPECT_NE(refusal([&] { store_.merge(some_records()); }), "accepted") << text;
    EXPECT_EQ(text_of(path_), text);
  }
}

TEST_F(TuneStoreTest, APlaceThatCannotBeWrittenIsNamed) {
  std::ofstream(folder_ / "file") << "x";
  const TuneStore below_a_file(folder_ / "file" / "tune" / "cpu.json", kMachine);
  EXPECT_THAT(refusal([&] { below_a_file.merge(some_records()); }), testing::HasSubstr("cannot be made"));
  if (geteuid() == 0) return;  // nothing is read-only for root
  std::filesystem::permissions(folder_,
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  EXPECT_THAT(refusal([&] { store_.merge(some_records()); }),
              testing::HasSubstr("cannot be written: Permission"));
}

// A limit on the size of files stands for a disk that is full in the middle of writing.
TEST_F(TuneStoreTest, AFullDiskLeavesTheOldFileAndNothingElse) {
  store_.merge(some_records());
  const std::string before = text_of(path_);
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 100, .rlim_max = old.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string message = refusal([&] { store_.merge(some_records()); });
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(message, testing::HasSubstr("cpu.json: cannot be written: File too large"));
  EXPECT_EQ(text_of(path_), before);
  EXPECT_EQ(files(), 1);
}

TEST_F(TuneStoreTest, LiesInTheUsersCache) {
  const char* variables[] = {"XDG_CACHE_HOME", "HOME"};
  std::map<std::string, std::optional<std::string>> saved;
  for (const char* name : variables) {
    const char* value = std::getenv(name);
    saved[name] = value == nullptr ? std::nullopt : std::optional<std::string>(value);
  }
  const std::filesystem::path tail = "tagalong/tune/test-cpu-r-9-1-2-3.json";
  setenv("XDG_CACHE_HOME", "/cache", 1);
  setenv("HOME", "/home/x", 1);
  EXPECT_EQ(TuneStore::default_path(kMachine), std::filesystem::path("/cache") / tail);
  setenv("XDG_CACHE_HOME", "relative", 1);
  EXPECT_EQ(TuneStore::default_path(kMachine), std::filesystem::path("/home/x/.cache") / tail);
  unsetenv("XDG_CACHE_HOME");
  EXPECT_EQ(TuneStore::default_path(kMachine), std::filesystem::path("/home/x/.cache") / tail);
  unsetenv("HOME");
  EXPECT_EQ(TuneStore::default_path(kMachine), std::nullopt);
  for (const char* name : variables) {
    if (saved[name]) setenv(name, saved[name]->c_str(), 1);
  }
}

TEST(TuningTable, FillsTheGapsBetweenWhatWasTuned) {
  EXPECT_EQ(tuning_table({}), kernels::TuningTable{});
  const auto entry = [](int row_tile) { return TuneEntry{.tuning = {.row_tile = row_tile}}; };
  const kernels::TuningTable table = tuning_table({{2, entry(2)}, {16, entry(5)}});
  EXPECT_EQ(table.for_rows(1).row_tile, 2);
  EXPECT_EQ(table.for_rows(2).row_tile, 2);
  EXPECT_EQ(table.for_rows(15).row_tile, 2);
  EXPECT_EQ(table.for_rows(16).row_tile, 5);
  EXPECT_EQ(table.for_rows(5000).row_tile, 5);
}

}  // namespace
}  // namespace tagalong::tools
