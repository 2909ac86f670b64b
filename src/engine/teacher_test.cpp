#include "engine/teacher.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"
#include "engine/arithmetic_model_testing.h"

namespace tagalong::engine {
namespace {

std::vector<float> expected(const std::vector<std::int32_t>& ids) {
  std::uint64_t hash = 0;
  for (const std::int32_t id : ids) hash = ArithmeticModel::extend(hash, id);
  std::vector<float> logits(ArithmeticModel::kVocab);
  ArithmeticModel::fill_logits(hash, logits);
  return logits;
}

std::vector<float> row(std::span<const float> logits, std::size_t i) {
  const auto values = logits.subspan(i * ArithmeticModel::kVocab, ArithmeticModel::kVocab);
  return {values.begin(), values.end()};
}

TEST(Teacher, GivesTheLogitsOfEveryToken) {
  const ArithmeticModel model(64);
  base::ThreadPool pool(1);
  Teacher teacher(model, pool, {.chunk = 5});
  const std::vector<std::int32_t> ids{4, 8, 15, 16, 23, 42, 1, 2, 3, 5, 7, 11};
  for (int round = 0; round < 2; ++round) {
    int next = 0;
    teacher.prompt(0, ids, [&](int position, std::span<const float> logits) {
      EXPECT_EQ(position, next++);
      EXPECT_EQ(row(logits, 0), expected({ids.begin(), ids.begin() + next}));
    });
    EXPECT_EQ(next, 12);
    EXPECT_EQ(model.last_roles.back(), routing::RowRole::kPrefill);
    teacher.reset();
  }
}

TEST(Teacher, DecodesSequencesOfUnequalLengthTogether) {
  const ArithmeticModel model(64);
  base::ThreadPool pool(1);
  Teacher teacher(model, pool, {.sequences = 3, .tokens = 20});
  std::vector<std::vector<std::int32_t>> sequences{{1}, {2, 3, 4}, {}};
  for (int i = 0; i < 3; ++i) teacher.prompt(i, sequences[static_cast<std::size_t>(i)]);
  for (std::int32_t step = 0; step < 17; ++step) {
    const std::vector<std::int32_t> ids{step, step + 10, step + 20};
    const std::span<const float> logits = teacher.decode(ids);
    ASSERT_EQ(logits.size(), 3U * ArithmeticModel::kVocab);
    for (std::size_t i = 0; i < 3; ++i) {
      sequences[i].push_back(ids[i]);
      EXPECT_EQ(row(logits, i), expected(sequences[i])) << "step " << step << " sequence " << i;
    }
  }
  const routing::LayerTotals totals = teacher.decode_routing().snapshot(1);
  EXPECT_EQ(totals.layer_steps, 17U);
  EXPECT_EQ(totals.decode_rows, 51U);
  EXPECT_EQ(totals.experts_exact, 6U * 17);
}

TEST(Teacher, RefusesMoreThanTheContext) {
  const ArithmeticModel model(64);
  base::ThreadPool pool(1);
  EXPECT_THROW(Teacher(model, pool, {.tokens = 65}), base::InputError);
}

}  // namespace
}  // namespace tagalong::engine
