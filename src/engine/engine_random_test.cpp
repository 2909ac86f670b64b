// Random submissions and cancellations on small engines. Whatever happens, every request ends exactly once,
// its tokens are those it gets alone (a prefix of them if it was cancelled), and all blocks come back.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <vector>

#include "engine/arithmetic_model_testing.h"
#include "engine/engine.h"

namespace tagalong::engine {
namespace {

struct Life {
  Request request;
  std::vector<std::int32_t> tokens;
  int endings = 0;
  FinishReason finish = FinishReason::kStop;
  RequestId id = 0;
};

class RandomRun {
 public:
  explicit RandomRun(std::uint32_t seed) : random_(seed) {}
  void check();
  std::uint64_t preemptions = 0;

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint32_t>(n)); }

  Request random_request(int max_context) {
    Request request;
    const int prompt = 1 + below(below(4) == 0 ? max_context - 1 : 12);
    for (int i = 0; i < prompt; ++i) request.prompt.push_back(below(ArithmeticModel::kVocab));
    request.max_tokens = 1 + below(50);
    request.sampling = {.temperature = below(3) == 0 ? 0.0F : 1.0F,
                        .top_k = below(2) * 20,
                        .top_p = below(2) == 0 ? 1.0F : 0.9F,
                        .min_p = below(3) == 0 ? 0.1F : 0.0F,
                        .seed = random_()};
    if (below(2) == 0) request.stop_ids = {below(ArithmeticModel::kVocab), below(ArithmeticModel::kVocab)};
    request.exact_routing = below(4) == 0;
    request.top_logprobs = below(4);
    return request;
  }

  EngineOptions random_options(int max_context) {
    EngineOptions options;
    options.max_sequences = 1 + below(8);
    options.max_batch_tokens = options.max_sequences + below(20);
    options.max_context = max_context;
    options.kv_blocks = cache::blocks_for(max_context) + below(6);
    options.kv_type = below(2) == 0 ? cache::KvType::kF32 : cache::KvType::kBF16;
    return options;
  }

  void submit(Engine& engine) {
    Life& life = lives_.emplace_back();
    life.request = random_request(engine.max_context());
    life.id = engine.submit(life.request, [this, &life](const TokenEvent& event) {
      EXPECT_EQ(life.endings, 0);
      if (event.id != kNoToken) life.tokens.push_back(event.id);
      EXPECT_EQ(event.generated_tokens, static_cast<int>(life.tokens.size()));
      EXPECT_EQ(event.prompt_tokens, static_cast<int>(life.request.prompt.size()));
      if (event.finish) {
        life.finish = *event.finish;
        ++life.endings;
        ++ended_;
      }
    });
  }

  std::mt19937 random_;
  std::deque<Life> lives_;  // addresses stay
  std::uint64_t ended_ = 0;
};

void RandomRun::check() {
  const int max_context = 20 + below(80);
  const ArithmeticModel model(max_context);
  // Threads only matter to sampling here, and cost much where other work keeps the processor busy.
  base::ThreadPool pool(below(20) == 0 ? 3 : 1);
  Engine engine(model, pool, random_options(max_context));

  const int requests = 5 + below(40);
  int steps = 0;
  bool busy = true;
  while (static_cast<int>(lives_.size()) < requests || busy) {
    while (static_cast<int>(lives_.size()) < requests && below(3) == 0) submit(engine);
    if (!lives_.empty() && below(12) == 0) {
      engine.cancel(lives_[static_cast<std::size_t>(below(static_cast<int>(lives_.size())))].id);
    }
    busy = engine.step();
    ASSERT_LT(++steps, 100000) << "no end in sight";
    const EngineStats stats = engine.stats();
    ASSERT_EQ(stats.submitted, ended_ + static_cast<std::uint64_t>(stats.running + stats.waiting));
    ASSERT_LE(stats.running, engine.options().max_sequences);
    if (stats.running + stats.waiting == 0) {
      ASSERT_EQ(stats.kv_blocks_used, 0);
    }
  }

  for (const Life& life : lives_) {
    EXPECT_EQ(life.endings, 1);
    std::vector<std::int32_t> alone = ArithmeticModel::answer(life.request, max_context);
    if (life.finish == FinishReason::kCancelled) {
      ASSERT_LT(life.tokens.size(), alone.size());
      alone.resize(life.tokens.size());
    } else {
      const auto& stops = life.request.stop_ids;
      const bool stopped = std::find(stops.begin(), stops.end(), alone.back()) != stops.end();
      EXPECT_EQ(life.finish, stopped ? FinishReason::kStop : FinishReason::kLength);
    }
    EXPECT_EQ(life.tokens, alone);
  }
  const EngineStats stats = engine.stats();
  EXPECT_EQ(stats.finished_stop + stats.finished_length + stats.finished_cancelled, lives_.size());
  preemptions = stats.preemptions;
  EXPECT_LE(model.most_rows, engine.options().max_batch_tokens);
}

TEST(RandomEngine, LosesNothingAndMixesNothingUp) {
  std::uint64_t preemptions = 0;
  for (std::uint32_t seed = 1; seed <= 200 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    RandomRun run(seed);
    run.check();
    preemptions += run.preemptions;
  }
  EXPECT_GT(preemptions, 100U) << "the pools are too large to test anything";
}

}  // namespace
}  // namespace tagalong::engine
