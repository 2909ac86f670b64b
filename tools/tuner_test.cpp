#include "tuner.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace tagalong::tools {
namespace {

using kernels::Tuning;

// A machine whose passes take what a formula says.
class Formula : public TuneSubject {
 public:
  explicit Formula(std::function<double(const Tuning&, int rows, int call)> time) : time_(std::move(time)) {}

  void draw(int rows) override { rows_ = rows; }
  double time(const Tuning& tuning) override {
    ++calls;
    return time_(tuning, rows_, calls);
  }
  double bytes() const override { return 1000; }

  int calls = 0;

 private:
  std::function<double(const Tuning&, int, int)> time_;
  int rows_ = 0;
};

std::map<int, TuneEntry> tune(Formula& experts, TuneEffort effort, Formula* attention = nullptr) {
  std::map<int, TuneEntry> last;
  Tuner(experts, attention, 4)
      .tune(
          effort, [] { return 1e9; },
          {.progress = [](const std::string&) {}, .found = [&last](const auto& entries) { last = entries; }});
  return last;
}

TEST(Tuner, FindsWhatIsClearlyFasterForEachBatch) {
  Formula formula([](const Tuning& t, int rows, int) {
    const double tiles = rows >= 16 ? (t.project_tiles == 16 ? 80 : 100) : (t.project_tiles == 4 ? 80 : 100);
    return tiles * (t.prefetch == 9216 ? 0.9 : 1.0) * (t.schedule == base::Schedule::kStealing ? 0.95 : 1.0);
  });
  const auto entries = tune(formula, TuneEffort::kQuick);
  ASSERT_EQ(entries.size(), 4U);
  for (const auto& [rows, entry] : entries) {
    EXPECT_EQ(entry.tuning.project_tiles, rows >= 16 ? 16 : 4) << rows;
    EXPECT_EQ(entry.tuning.prefetch, 9216) << rows;
    EXPECT_EQ(entry.tuning.schedule, base::Schedule::kStealing) << rows;
    EXPECT_EQ(entry.default_microseconds, 100);
    EXPECT_DOUBLE_EQ(entry.microseconds, 80 * 0.9 * 0.95);
    EXPECT_EQ(entry.spread, 0);
    EXPECT_DOUBLE_EQ(entry.bytes_per_second, 1000 / entry.microseconds * 1e6);
    EXPECT_DOUBLE_EQ(entry.share_of_stream, entry.bytes_per_second / 1e9);
  }
}

TEST(Tuner, KeepsTheDefaultsWhereTheGainIsSmall) {
  Formula formula([](const Tuning& t, int, int) { return t == Tuning{} ? 100.0 : 97.5; });
  for (const auto& [rows, entry] : tune(formula, TuneEffort::kQuick))
    EXPECT_EQ(entry.tuning, Tuning{}) << rows;
}

// A machine on which every setting but the defaults is fast for so many passes, and slow from then on.
Formula fast_for(int passes, std::vector<std::pair<Tuning, int>>& seen) {
  return Formula([passes, &seen](const Tuning& t, int, int) {
    if (t == Tuning{}) return 100.0;
    for (auto& [tuning, count] : seen) {
      if (tuning == t) return ++count <= passes ? 50.0 : 101.0;
    }
    seen.emplace_back(t, 1);
    return 50.0;
  });
}

// For a trial; for a trial and its confirmation, but not for the closing measurement.
TEST(Tuner, KeepsTheDefaultsWhereAGainDoesNotLast) {
  for (const int passes : {7, 7 + 15}) {
    std::vector<std::pair<Tuning, int>> seen;
    Formula formula = fast_for(passes, seen);
    for (const auto& [rows, entry] : tune(formula, TuneEffort::kQuick)) {
      EXPECT_EQ(entry.tuning, Tuning{}) << rows;
      EXPECT_EQ(entry.microseconds, 100) << rows;
    }
    EXPECT_GT(seen.size(), 5U);
  }
}

TEST(Tuner, FullTriesMoreAndAllBatches) {
  Formula formula([](const Tuning& t, int, int) {
    return 100.0 - (t.activate_tiles == 6 ? 10 : 0) - (t.project_workers == 3 ? 10 : 0);
  });
  const auto entries = tune(formula, TuneEffort::kFull);
  ASSERT_EQ(entries.size(), 10U);
  for (const auto& [rows, entry] : entries) {
    EXPECT_EQ(entry.tuning, (Tuning{.activate_tiles = 6, .project_workers = 3})) << rows;
  }
}

// Either subject is asked about its own settings only.
TEST(Tuner, FindsHowToCutAttentionBesideTheExperts) {
  Formula experts([](const Tuning& t, int, int) {
    EXPECT_EQ(t.attention_tasks, Tuning{}.attention_tasks);
    return t.project_tiles == 16 ? 80.0 : 100.0;
  });
  Formula attention([](const Tuning& t, int rows, int) {
    EXPECT_LE(rows, Tuner::most_attention_rows());
    return t.attention_tasks == (rows >= 16 ? 1 : 4) ? 25.0 : 50.0;
  });
  for (const TuneEffort effort : {TuneEffort::kQuick, TuneEffort::kFull}) {
    for (const auto& [rows, entry] : tune(experts, effort, &attention)) {
      EXPECT_EQ(entry.tuning.project_tiles, 16) << rows;
      EXPECT_EQ(entry.microseconds, 80) << rows;
      const bool measured = rows <= Tuner::most_attention_rows();
      const int expected = measured ? (rows >= 16 ? 1 : 4) : Tuning{}.attention_tasks;
      EXPECT_EQ(entry.tuning.attention_tasks, expected) << rows;
      EXPECT_EQ(entry.attention_microseconds, measured ? 25 : 0) << rows;
      EXPECT_EQ(entry.attention_default_microseconds, measured ? 50 : 0) << rows;
    }
  }
}

TEST(Tuner, LeavesAttentionAsItIsWhereTheLayerWouldNotShowIt) {
  Formula experts([](const Tuning&, int, int) { return 100.0; });
  Formula attention([](const Tuning& t, int, int) { return t.attention_tasks == 4 ? 1.0 : 3.0; });
  for (const auto& [rows, entry] : tune(experts, TuneEffort::kQuick, &attention)) {
    EXPECT_EQ(entry.tuning, Tuning{}) << rows;
    EXPECT_EQ(entry.attention_microseconds, 3) << rows;
  }
}

// Small and large batches first, so that what is there when somebody breaks off serves all.
TEST(Tuner, FullTellsWhatItHasAfterEachBatch) {
  Formula formula([](const Tuning&, int, int) { return 100.0; });
  std::vector<std::vector<int>> told;
  Tuner(formula, nullptr, 4)
      .tune(TuneEffort::kFull, [] { return 1e9; },
            {.progress = [](const std::string&) {},
             .found =
                 [&told](const auto& entries) {
                   told.emplace_back();
                   for (const auto& [rows, entry] : entries) told.back().push_back(rows);
                 }});
  ASSERT_EQ(told.size(), 7U);
  EXPECT_EQ(told.front(), (std::vector<int>{1, 4, 16, 64}));
  EXPECT_EQ(told[1], (std::vector<int>{1, 2, 4, 16, 64}));
  EXPECT_EQ(told.back(), (std::vector<int>{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}));
}

// Passes that say they take two seconds leave no room for a search: one closing measurement a batch.
TEST(Tuner, QuickDoesNotBeginWhatDoesNotFit) {
  Formula formula([](const Tuning& t, int, int) { return t.prefetch == 0 ? 1e6 : 2e6; });
  for (const auto& [rows, entry] : tune(formula, TuneEffort::kQuick))
    EXPECT_EQ(entry.tuning, Tuning{}) << rows;
  EXPECT_LE(formula.calls, 4 * 6);
}

}  // namespace
}  // namespace tagalong::tools
