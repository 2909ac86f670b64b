#include "engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engine/arithmetic_model_testing.h"

namespace tagalong::engine {
namespace {

// Collects what one request is told and checks the rules of the telling.
struct Listener {
  std::vector<std::int32_t> tokens;
  std::vector<float> logprobs;
  std::optional<FinishReason> finish;

  TokenCallback callback() {
    return [this](const TokenEvent& event) {
      EXPECT_FALSE(finish.has_value()) << "an event after the last one";
      if (event.id == kNoToken) {
        EXPECT_EQ(event.finish, FinishReason::kCancelled);
      } else {
        tokens.push_back(event.id);
        logprobs.push_back(event.logprob);
      }
      EXPECT_EQ(event.generated_tokens, static_cast<int>(tokens.size()));
      finish = event.finish;
    };
  }
};

Request request(std::vector<std::int32_t> prompt, int max_tokens) {
  Request result;
  result.prompt = std::move(prompt);
  result.max_tokens = max_tokens;
  return result;
}

struct EngineTest : testing::Test {
  static constexpr int kContext = 64;
  ArithmeticModel model{kContext};
  base::ThreadPool pool{2};

  void run(Engine& engine) {
    int steps = 0;
    while (engine.step()) ASSERT_LT(++steps, 10000);
  }

  std::string refusal(Engine& engine, const Request& bad) {
    try {
      engine.submit(bad, [](const TokenEvent&) { ADD_FAILURE() << "called for a refused request"; });
    } catch (const base::InputError& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(EngineTest, GivesTheTokensOfTheModel) {
  Engine engine(model, pool, {.kv_type = cache::KvType::kF32});
  EXPECT_FALSE(engine.step());
  const Request first = request({1, 2, 3}, 20);
  Request second = request({60, 0, 7, 7}, 9);
  second.sampling.temperature = 0;
  Listener a;
  Listener b;
  EXPECT_NE(engine.submit(first, a.callback()), engine.submit(second, b.callback()));
  run(engine);
  EXPECT_EQ(a.tokens, ArithmeticModel::answer(first, kContext));
  EXPECT_EQ(b.tokens, ArithmeticModel::answer(second, kContext));
  EXPECT_EQ(a.finish, FinishReason::kLength);
  const EngineStats stats = engine.stats();
  EXPECT_EQ(stats.steps, 20U);
  EXPECT_EQ(stats.decode_steps, 19U);
  EXPECT_EQ(stats.prompt_tokens, 7U);
  EXPECT_EQ(stats.prefill_rows, 7U);
  EXPECT_EQ(stats.generated_tokens, 29U);
  EXPECT_EQ(stats.decode_tokens, 27U);
  EXPECT_EQ(stats.submitted, 2U);
  EXPECT_EQ(stats.finished_length, 2U);
  EXPECT_EQ(stats.running + stats.waiting, 0);
  EXPECT_EQ(stats.kv_blocks_used, 0);
  EXPECT_EQ(stats.kv_blocks_total, 64);
  EXPECT_EQ(stats.decode_routing.layer_steps, 38U);
  EXPECT_EQ(stats.decode_routing.mean_experts(), 4);
  EXPECT_EQ(stats.decode_routing.mean_experts_exact(), 6);
  EXPECT_EQ(stats.decode_routing.mean_kept_mass(), 1);
  EXPECT_EQ(stats.mixed_routing.layer_steps, 2U);
}

TEST_F(EngineTest, StopsAtAStopToken) {
  Request asked = request({5}, 50);
  const std::vector<std::int32_t> free = ArithmeticModel::answer(asked, kContext);
  asked.stop_ids = {free[6], free[20]};
  Engine engine(model, pool, {});
  Listener listener;
  engine.submit(asked, listener.callback());
  run(engine);
  EXPECT_EQ(listener.tokens, ArithmeticModel::answer(asked, kContext));
  EXPECT_EQ(listener.tokens.back(), free[6]);
  EXPECT_EQ(listener.finish, FinishReason::kStop);
}

TEST_F(EngineTest, EndsAtTheEndOfTheContext) {
  Engine engine(model, pool, {});
  const Request asked = request(std::vector<std::int32_t>(60, 1), 1 << 30);
  const Request longest = request(std::vector<std::int32_t>(63, 1), 5);
  Listener a;
  Listener b;
  engine.submit(asked, a.callback());
  engine.submit(longest, b.callback());
  run(engine);
  EXPECT_EQ(a.tokens.size(), 4U);
  EXPECT_EQ(b.tokens.size(), 1U);
  EXPECT_EQ(a.finish, FinishReason::kLength);
  EXPECT_EQ(b.finish, FinishReason::kLength);
}

TEST_F(EngineTest, RefusesWhatItCannotDo) {
  Engine engine(model, pool, {});
  EXPECT_EQ(refusal(engine, request({}, 1)), "the prompt has no tokens");
  EXPECT_EQ(refusal(engine, request(std::vector<std::int32_t>(64, 1), 1)),
            "the prompt has 64 tokens, but the context holds 64, the answer included");
  EXPECT_THROW(engine.submit(request(std::vector<std::int32_t>(64, 1), 1), {}), PromptTooLong);
  EXPECT_EQ(refusal(engine, request({1, 61}, 1)), "prompt token 61 is outside the vocabulary of 61 tokens");
  EXPECT_EQ(refusal(engine, request({-1}, 1)), "prompt token -1 is outside the vocabulary of 61 tokens");
  EXPECT_EQ(refusal(engine, request({1}, 0)), "max_tokens is 0, expected 1 or more");
  Request bad = request({1}, 1);
  bad.stop_ids = {0, 99};
  EXPECT_EQ(refusal(engine, bad), "stop token 99 is outside the vocabulary of 61 tokens");
  bad = request({1}, 1);
  bad.top_logprobs = 21;
  EXPECT_EQ(refusal(engine, bad), "top_logprobs is 21, expected 0 to 20");
  bad = request({1}, 1);
  bad.sampling.top_p = 0;
  EXPECT_EQ(refusal(engine, bad), "top_p is 0, expected more than 0 and at most 1");
  EXPECT_FALSE(engine.step());
  engine.close();
  EXPECT_THROW(engine.submit(request({1}, 1), {}), EngineClosed);
}

TEST_F(EngineTest, RefusesOptionsThatCannotWork) {
  const auto message = [&](const EngineOptions& options) -> std::string {
    try {
      const Engine engine(model, pool, options);
    } catch (const base::InputError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message({.max_sequences = 0}), "max_sequences is 0, expected 1 to 65536");
  EXPECT_EQ(message({.max_sequences = 9, .max_batch_tokens = 8}),
            "max_batch_tokens is 8, expected 9 to 1048576");
  EXPECT_EQ(message({.max_context = 65}), "max_context is 65, expected 2 to 64");
  EXPECT_EQ(message({.max_context = 64, .kv_blocks = 3}), "kv_blocks is 3, expected 4 to 134217727");
  EXPECT_EQ(message({.kv_blocks = -1}), "kv_blocks is -1, expected 0 to 134217727");
  const Engine small(model, pool, {.kv_blocks = 2});
  EXPECT_EQ(small.max_context(), 32);
}

TEST_F(EngineTest, ReportsTheLikeliestTokens) {
  Engine engine(model, pool, {});
  Request asked = request({4, 4}, 3);
  asked.sampling.temperature = 0;
  asked.top_logprobs = 5;
  int events = 0;
  engine.submit(asked, [&](const TokenEvent& event) {
    ++events;
    ASSERT_EQ(event.top.size(), 5U);
    EXPECT_EQ(event.top[0].id, event.id);
    EXPECT_EQ(event.top[0].logprob, event.logprob);
    ASSERT_EQ(event.logits.size(), 61U);
    EXPECT_EQ(event.logits[static_cast<std::size_t>(event.id)],
              *std::max_element(event.logits.begin(), event.logits.end()));
    for (std::size_t i = 1; i < 5; ++i) EXPECT_LE(event.top[i].logprob, event.top[i - 1].logprob);
  });
  run(engine);
  EXPECT_EQ(events, 3);
}

TEST_F(EngineTest, CancelsWithinAStep) {
  Engine engine(model, pool, {.max_sequences = 1, .max_batch_tokens = 4});
  Listener running;
  Listener waiting;
  Listener untouched;
  const RequestId a = engine.submit(request({1}, 60), running.callback());
  const RequestId b = engine.submit(request({2}, 60), waiting.callback());
  engine.submit(request({3}, 5), untouched.callback());
  engine.step();
  engine.step();
  EXPECT_EQ(running.tokens.size(), 2U);
  engine.cancel(a);
  engine.cancel(b);
  engine.cancel(12345);
  engine.step();
  EXPECT_EQ(running.finish, FinishReason::kCancelled);
  EXPECT_EQ(waiting.finish, FinishReason::kCancelled);
  EXPECT_EQ(running.tokens.size(), 2U);
  EXPECT_TRUE(waiting.tokens.empty());
  engine.cancel(a);
  run(engine);
  EXPECT_EQ(untouched.tokens.size(), 5U);
  EXPECT_EQ(engine.stats().finished_cancelled, 2U);
}

TEST_F(EngineTest, CancelsARequestThatNoStepHasSeen) {
  Engine engine(model, pool, {});
  Listener listener;
  engine.cancel(engine.submit(request({1}, 60), listener.callback()));
  EXPECT_TRUE(engine.step());
  EXPECT_EQ(listener.finish, FinishReason::kCancelled);
  EXPECT_FALSE(engine.step());
  EXPECT_EQ(engine.stats().steps, 0U);
}

TEST_F(EngineTest, CallbacksMaySubmitAndCancel) {
  Engine engine(model, pool, {});
  Listener second;
  int first_tokens = 0;
  std::optional<FinishReason> first_finish;
  RequestId first = 0;
  first = engine.submit(request({1}, 30), [&](const TokenEvent& event) {
    first_finish = event.finish;
    if (event.id == kNoToken || ++first_tokens != 3) return;
    engine.submit(request({9}, 4), second.callback());
    engine.cancel(first);
  });
  run(engine);
  EXPECT_EQ(first_tokens, 3);
  EXPECT_EQ(first_finish, FinishReason::kCancelled);
  EXPECT_EQ(second.tokens, ArithmeticModel::answer(request({9}, 4), kContext));
}

TEST_F(EngineTest, DestructionEndsWhatIsInFlight) {
  Listener running;
  Listener waiting;
  Listener unseen;
  {
    Engine engine(model, pool, {.max_sequences = 1, .max_batch_tokens = 1});
    engine.submit(request({1, 2, 3}, 5), running.callback());
    engine.submit(request({1}, 5), waiting.callback());
    engine.step();
    engine.submit(request({1}, 5), unseen.callback());
  }
  EXPECT_EQ(running.finish, FinishReason::kCancelled);
  EXPECT_EQ(waiting.finish, FinishReason::kCancelled);
  EXPECT_EQ(unseen.finish, FinishReason::kCancelled);
}

TEST_F(EngineTest, PinsTheRowsOfAnExactRequest) {
  Engine engine(model, pool, {});
  Request exact = request({1}, 3);
  exact.exact_routing = true;
  engine.submit(request({1}, 3), [](const TokenEvent&) {});
  engine.submit(exact, [](const TokenEvent&) {});
  engine.step();
  engine.step();
  EXPECT_EQ(model.last_roles,
            (std::vector<routing::RowRole>{routing::RowRole::kDecode, routing::RowRole::kPinnedExact}));
}

TEST_F(EngineTest, RecomputesWhatWasPreempted) {
  // Three sequences grow to 40 tokens, 3 blocks each, in a pool of 4.
  Engine engine(model, pool, {.max_context = 64, .kv_blocks = 4});
  std::vector<Listener> listeners(3);
  std::vector<Request> asked;
  for (std::int32_t i = 0; i < 3; ++i) {
    asked.push_back(request({i, 10, 20}, 37));
    engine.submit(asked.back(), listeners[static_cast<std::size_t>(i)].callback());
  }
  run(engine);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(listeners[i].tokens, ArithmeticModel::answer(asked[i], kContext)) << i;
  }
  const EngineStats stats = engine.stats();
  EXPECT_GT(stats.preemptions, 0U);
  EXPECT_GT(stats.prefill_rows, stats.prompt_tokens);
  EXPECT_EQ(stats.prompt_tokens, 9U);
  EXPECT_EQ(stats.kv_blocks_used, 0);
}

}  // namespace
}  // namespace tagalong::engine
