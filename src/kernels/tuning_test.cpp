#include "kernels/tuning.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "base/error.h"

namespace tagalong::kernels {
namespace {

TEST(TuningTable, BucketsArePowersOfTwo) {
  const auto bucket = [](int rows) { return TuningTable::bucket_of(rows); };
  EXPECT_EQ(bucket(1), 0);
  EXPECT_EQ(bucket(2), 1);
  EXPECT_EQ(bucket(3), 1);
  EXPECT_EQ(bucket(4), 2);
  EXPECT_EQ(bucket(511), 8);
  EXPECT_EQ(bucket(512), 9);
  EXPECT_EQ(bucket(1 << 20), 9);
  for (int i = 0; i < TuningTable::kBuckets; ++i) EXPECT_EQ(bucket(TuningTable::rows_of(i)), i);
}

TEST(Tuning, IsWrittenAndReadBack) {
  EXPECT_EQ(parse_tuning(""), Tuning{});
  EXPECT_EQ(to_string({}), "default");
  EXPECT_EQ(parse_tuning("default"), Tuning{});
  const Tuning odd{.row_tile = 3,
                   .activate_tiles = 7,
                   .project_tiles = 64,
                   .activate_workers = 5,
                   .project_workers = 1,
                   .schedule = base::Schedule::kStealing,
                   .prefetch = 65536,
                   .attention_tasks = 64};
  EXPECT_EQ(parse_tuning(to_string(odd)), odd);
  EXPECT_EQ(parse_tuning("prefetch=64,row_tile=2"), (Tuning{.row_tile = 2, .prefetch = 64}));
  EXPECT_EQ(to_string({.schedule = base::Schedule::kStealing, .prefetch = 64}),
            "schedule=stealing,prefetch=64");
}

TEST(Tuning, RefusesWhatItDoesNotKnow) {
  const auto message = [](std::string_view text) {
    try {
      parse_tuning(text);
    } catch (const base::InputError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(message("row_tile=9"), "tuning 'row_tile=9': row_tile is '9', expected 1 to 8");
  EXPECT_EQ(message("prefetch=64,row_tile=x"),
            "tuning 'prefetch=64,row_tile=x': row_tile is 'x', expected 1 to 8");
  EXPECT_EQ(message("schedule=random"),
            "tuning 'schedule=random': schedule is 'random', expected static or stealing");
  EXPECT_EQ(message("speed=1"),
            "tuning 'speed=1': no setting 'speed'; known: schedule, row_tile, activate_tiles, project_tiles, "
            "activate_workers, project_workers, prefetch, attention_tasks");
  EXPECT_EQ(message("prefetch"), "tuning 'prefetch': 'prefetch' is not NAME=VALUE");
  for (const char* text : {"row_tile=0", "activate_tiles=0", "project_tiles=65", "activate_workers=-1",
                           "project_workers=5000", "prefetch=-64", "attention_tasks=0", "attention_tasks=65",
                           "row_tile=", "row_tile=2x", ",", "=", "row_tile=99999999999999"}) {
    EXPECT_NE(message(text), "accepted") << text;
  }
}

}  // namespace
}  // namespace tagalong::kernels
