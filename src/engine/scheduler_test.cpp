#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace tagalong::engine {
namespace {

using routing::RowRole;

std::unique_ptr<Sequence> sequence(RequestId id, int prompt, int max_tokens, bool exact = false) {
  auto result = std::make_unique<Sequence>();
  result->id = id;
  result->tokens.assign(static_cast<std::size_t>(prompt), 1);
  result->prompt_tokens = prompt;
  result->limit = prompt + max_tokens;
  result->request.exact_routing = exact;
  return result;
}

// What the engine does after a step: rows are computed, and where logits were wanted a token follows.
void commit(const Scheduler& scheduler) {
  for (const Scheduler::Part& part : scheduler.parts()) {
    part.sequence->computed += part.rows;
    if (part.wants_logits) part.sequence->tokens.push_back(2);
  }
}

std::vector<int> rows(const Scheduler& scheduler) {
  std::vector<int> result;
  for (const Scheduler::Part& part : scheduler.parts()) result.push_back(part.rows);
  return result;
}

std::vector<RequestId> ids(const Scheduler& scheduler) {
  std::vector<RequestId> result;
  for (const Scheduler::Part& part : scheduler.parts()) result.push_back(part.sequence->id);
  return result;
}

TEST(Scheduler, CutsPromptsIntoChunksOfTheBudget) {
  Scheduler scheduler({.max_sequences = 4, .max_batch_tokens = 10, .kv_blocks = 100});
  models::Batch batch;
  EXPECT_FALSE(scheduler.schedule(batch));
  scheduler.add(sequence(1, 25, 5));
  scheduler.add(sequence(2, 3, 5));
  ASSERT_TRUE(scheduler.schedule(batch));
  EXPECT_EQ(rows(scheduler), (std::vector<int>{10}));
  EXPECT_TRUE(batch.logit_rows.empty());
  commit(scheduler);
  ASSERT_TRUE(scheduler.schedule(batch));
  EXPECT_EQ(batch.positions.front(), 10);
  commit(scheduler);
  ASSERT_TRUE(scheduler.schedule(batch));
  EXPECT_EQ(rows(scheduler), (std::vector<int>{5, 3}));
  EXPECT_EQ(batch.logit_rows, (std::vector<std::int32_t>{4, 7}));
}

TEST(Scheduler, DecodesFirstAndGivesPromptsTheRest) {
  Scheduler scheduler({.max_sequences = 4, .max_batch_tokens = 8, .kv_blocks = 100});
  models::Batch batch;
  scheduler.add(sequence(1, 2, 9));
  scheduler.add(sequence(2, 30, 9));
  scheduler.add(sequence(3, 1, 9, true));
  scheduler.schedule(batch);
  commit(scheduler);  // 2 + 6
  scheduler.schedule(batch);
  EXPECT_EQ(ids(scheduler), (std::vector<RequestId>{1, 2}));
  EXPECT_EQ(rows(scheduler), (std::vector<int>{1, 7}));
  EXPECT_EQ(batch.roles[0], RowRole::kDecode);
  EXPECT_EQ(batch.roles[1], RowRole::kPrefill);
  for (int i = 0; i < 4; ++i) {
    commit(scheduler);
    scheduler.schedule(batch);
  }
  // All decode now; the third asked for exact routing.
  EXPECT_EQ(ids(scheduler), (std::vector<RequestId>{1, 2, 3}));
  EXPECT_EQ(batch.roles, (std::vector<RowRole>{RowRole::kDecode, RowRole::kDecode, RowRole::kPinnedExact}));
}

TEST(Scheduler, AdmitsInOrderOfArrivalOnly) {
  // Six blocks: the second request does not fit beside the first, and the third must not overtake it.
  Scheduler scheduler({.max_sequences = 4, .max_batch_tokens = 100, .kv_blocks = 6});
  models::Batch batch;
  scheduler.add(sequence(1, 40, 8));  // 3 blocks
  scheduler.add(sequence(2, 60, 8));  // 4 blocks
  scheduler.add(sequence(3, 1, 8));
  scheduler.schedule(batch);
  EXPECT_EQ(ids(scheduler), (std::vector<RequestId>{1}));
  EXPECT_EQ(scheduler.waiting(), 2);
  EXPECT_NE(scheduler.remove(1), nullptr);
  scheduler.schedule(batch);
  EXPECT_EQ(ids(scheduler), (std::vector<RequestId>{2, 3}));
}

TEST(Scheduler, RunsNoMoreThanItsLimit) {
  Scheduler scheduler({.max_sequences = 2, .max_batch_tokens = 100, .kv_blocks = 50});
  models::Batch batch;
  for (RequestId id = 1; id <= 5; ++id) scheduler.add(sequence(id, 4, 4));
  scheduler.schedule(batch);
  EXPECT_EQ(scheduler.running(), 2);
  EXPECT_EQ(scheduler.waiting(), 3);
}

TEST(Scheduler, PreemptsTheYoungestWhenBlocksRunOut) {
  // Both start with one block of two; the older one needs the second at its 17th token.
  Scheduler scheduler({.max_sequences = 2, .max_batch_tokens = 40, .kv_blocks = 3});
  models::Batch batch;
  scheduler.add(sequence(1, 14, 34));
  scheduler.add(sequence(2, 10, 10));
  scheduler.schedule(batch);
  EXPECT_EQ(ids(scheduler), (std::vector<RequestId>{1, 2}));
  while (scheduler.preemptions() == 0) {
    commit(scheduler);
    ASSERT_TRUE(scheduler.schedule(batch));
  }
  EXPECT_EQ(scheduler.running(), 1);
  EXPECT_EQ(scheduler.waiting(), 1);
  EXPECT_EQ(ids(scheduler), (std::vector<RequestId>{1}));
  // What it generated is kept, what it had computed is not.
  scheduler.remove(1);
  ASSERT_TRUE(scheduler.schedule(batch));
  ASSERT_EQ(ids(scheduler), (std::vector<RequestId>{2}));
  EXPECT_GT(scheduler.parts()[0].sequence->generated(), 0);
  EXPECT_EQ(scheduler.parts()[0].rows, scheduler.parts()[0].sequence->size());
  EXPECT_EQ(batch.positions.front(), 0);
  EXPECT_EQ(batch.roles.back(), RowRole::kPrefill);
}

TEST(Scheduler, ReturnsEveryBlock) {
  Scheduler scheduler({.max_sequences = 3, .max_batch_tokens = 40, .kv_blocks = 9});
  models::Batch batch;
  for (RequestId id = 1; id <= 3; ++id) scheduler.add(sequence(id, 20, 4));
  scheduler.schedule(batch);
  EXPECT_LT(scheduler.blocks().free_blocks(), 9);
  EXPECT_EQ(scheduler.remove(7), nullptr);
  while (scheduler.first() != nullptr) scheduler.remove(scheduler.first()->id);
  EXPECT_EQ(scheduler.blocks().free_blocks(), 9);
  EXPECT_EQ(scheduler.running(), 0);
  EXPECT_FALSE(scheduler.schedule(batch));
}

}  // namespace
}  // namespace tagalong::engine
