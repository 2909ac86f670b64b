#include "engine/engine_loop.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <latch>
#include <thread>
#include <vector>

#include "engine/arithmetic_model_testing.h"

namespace tagalong::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Request request(std::int32_t first, int max_tokens) {
  Request result;
  result.prompt = {first, 1, 2};
  result.max_tokens = max_tokens;
  result.sampling.seed = static_cast<std::uint64_t>(first);
  return result;
}

struct EngineLoopTest : testing::Test {
  ArithmeticModel model{200};
  base::ThreadPool pool{1};
};

TEST_F(EngineLoopTest, ServesManyThreads) {
  constexpr int kThreads = 4;
  constexpr int kEach = 25;
  constexpr std::int32_t kPrompts = 60;
  // For each prompt whether all answers to it were right.
  std::array<std::atomic<int>, kPrompts> wrong{};
  std::latch ended(kThreads * kEach);
  Engine engine(model, pool, {.max_sequences = 5, .max_batch_tokens = 9, .kv_blocks = 16});
  EngineLoop loop(engine);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kEach; ++i) {
        const std::int32_t prompt = (thread * kEach + i) % kPrompts;
        auto tokens = std::make_shared<std::vector<std::int32_t>>();
        engine.submit(request(prompt, 1 + i), [&, prompt, i, tokens](const TokenEvent& event) {
          tokens->push_back(event.id);
          if (!event.finish) return;
          if (*tokens != ArithmeticModel::answer(request(prompt, 1 + i), 200)) ++wrong[prompt];
          ended.count_down();
        });
        if (i % 5 == 0) std::this_thread::sleep_for(milliseconds(1));  // lets the loop fall asleep
      }
    });
  }
  for (auto& thread : threads) thread.join();
  ended.wait();
  for (const auto& count : wrong) EXPECT_EQ(count, 0);
  EXPECT_EQ(engine.stats().finished_length, static_cast<std::uint64_t>(kThreads * kEach));
}

TEST_F(EngineLoopTest, CancelsFromOutside) {
  Engine engine(model, pool, {});
  EngineLoop loop(engine);
  std::latch started(1);
  std::latch ended(1);
  std::atomic<int> tokens{0};
  // The callback stalls the engine until the cancellation is in, so that the order is certain.
  std::latch cancelled(1);
  const RequestId id = engine.submit(request(1, 190), [&](const TokenEvent& event) {
    if (event.finish) {
      EXPECT_EQ(event.finish, FinishReason::kCancelled);
      ended.count_down();
    } else if (++tokens == 1) {
      started.count_down();
      cancelled.wait();
    }
  });
  started.wait();
  engine.cancel(id);
  cancelled.count_down();
  ended.wait();
  EXPECT_EQ(tokens, 1);
}

TEST_F(EngineLoopTest, DrainLetsRequestsEnd) {
  Engine engine(model, pool, {});
  EngineLoop loop(engine);
  std::vector<int> tokens(10);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    engine.submit(request(static_cast<std::int32_t>(i), 150),
                  [&, i](const TokenEvent& event) { tokens[i] = event.generated_tokens; });
  }
  EXPECT_TRUE(loop.drain(seconds(60)));
  EXPECT_EQ(tokens, std::vector<int>(10, 150));
  EXPECT_THROW(engine.submit(request(1, 1), {}), EngineClosed);
}

TEST_F(EngineLoopTest, DrainGivesUpAfterItsGrace) {
  Engine engine(model, pool, {});
  EngineLoop loop(engine);
  std::latch started(1);
  std::optional<FinishReason> finish;
  // It would take three seconds, on a machine so busy that the owner's thread waits too.
  engine.submit(request(1, 150), [&](const TokenEvent& event) {
    if (event.generated_tokens == 1 && !event.finish) started.count_down();
    finish = event.finish;
    std::this_thread::sleep_for(milliseconds(20));
  });
  started.wait();
  EXPECT_FALSE(loop.drain(milliseconds(1)));
  EXPECT_EQ(finish, FinishReason::kCancelled);
}

TEST_F(EngineLoopTest, StopsWhileIdleAndTwice) {
  Engine engine(model, pool, {});
  EngineLoop loop(engine);
  std::this_thread::sleep_for(milliseconds(5));
  loop.stop();
  loop.stop();
  EXPECT_TRUE(loop.drain(milliseconds(1)));
  EXPECT_EQ(engine.stats().steps, 0U);
}

TEST_F(EngineLoopTest, SleepsWhileIdle) {
  Engine engine(model, pool, {});
  EngineLoop loop(engine);
  std::this_thread::sleep_for(milliseconds(20));
  timespec before{};
  timespec after{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
  std::this_thread::sleep_for(milliseconds(200));
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
  const auto used =
      seconds(after.tv_sec - before.tv_sec) + std::chrono::nanoseconds(after.tv_nsec - before.tv_nsec);
  EXPECT_LT(used, milliseconds(100));  // a loop that spins would use all 200
}

TEST_F(EngineLoopTest, StatsAreWholeCopies) {
  Engine engine(model, pool, {});
  EngineLoop loop(engine);
  std::atomic<bool> ended{false};
  engine.submit(request(1, 190), [&](const TokenEvent& event) { ended = event.finish.has_value(); });
  while (!ended) {
    const EngineStats stats = engine.stats();
    // One sequence, one token a step: any mixture of two moments breaks this.
    ASSERT_EQ(stats.generated_tokens, stats.steps);
    ASSERT_EQ(stats.decode_routing.layer_steps, 2 * stats.decode_steps);
    // A layer may be ahead of the last step that was published, never behind it.
    ASSERT_GE(engine.routing_log().decode().snapshot(1).layer_steps, stats.decode_steps);
  }
}

}  // namespace
}  // namespace tagalong::engine
