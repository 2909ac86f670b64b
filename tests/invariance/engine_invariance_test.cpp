// Law 1 through the engine, on the bundled model: what a request gets depends neither on its neighbours nor
// on the scheduler's limits, preemption included; and routing exactly means that under every policy.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <random>
#include <vector>

#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "engine/engine.h"
#include "engine/logits_hash.h"
#include "kernels/select.h"
#include "models/model.h"

namespace tagalong::engine {
namespace {

struct Answer {
  std::vector<std::int32_t> tokens;
  std::vector<std::uint64_t> logits;  // hashes
  bool operator==(const Answer&) const = default;
};

class EngineInvariance : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    base::ThreadPool pool(1);
    const auto directory = std::filesystem::path(TAGALONG_SOURCE_DIR) / "models/storyteller";
    const auto checkpoint = checkpoint::Checkpoint::open(directory);
    model_ = models::load_model(checkpoint, {.kernels = kernels::select_kernels("auto"), .pool = pool});
  }
  static void TearDownTestSuite() { model_.reset(); }

  static std::vector<Request> requests(int count, int most_tokens) {
    std::mt19937 random(11);
    std::vector<Request> result;
    for (int i = 0; i < count; ++i) {
      Request request;
      const int prompt = 1 + static_cast<int>(random() % 40);
      for (int t = 0; t < prompt; ++t) {
        request.prompt.push_back(
            static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(model_->info().vocab)));
      }
      request.max_tokens = 1 + static_cast<int>(random() % static_cast<std::uint32_t>(most_tokens));
      request.sampling = {.temperature = i % 3 == 0 ? 0.0F : 0.8F, .top_p = 0.95F, .seed = random()};
      result.push_back(request);
    }
    return result;
  }

  // Runs all requests in one engine.
  static std::vector<Answer> run(const std::vector<Request>& requests, const EngineOptions& options,
                                 int threads, EngineStats* stats = nullptr) {
    base::ThreadPool pool(threads);
    Engine engine(*model_, pool, options);
    std::vector<Answer> answers(requests.size());
    for (std::size_t i = 0; i < requests.size(); ++i) {
      engine.submit(requests[i], [&answer = answers[i]](const TokenEvent& event) {
        answer.tokens.push_back(event.id);
        answer.logits.push_back(hash_logits(event.logits));
      });
    }
    while (engine.step()) {
    }
    if (stats != nullptr) *stats = engine.stats();
    return answers;
  }

  static Answer alone(const Request& request) {
    return run({request}, {.max_sequences = 1, .max_batch_tokens = 512}, 1).front();
  }

  static routing::RoutingPolicy oea(int k0, int min_rows) {
    routing::RoutingPolicy policy;
    policy.kind = routing::PolicyKind::kOea;
    policy.k0 = k0;
    policy.min_rows = min_rows;
    return policy;
  }

  static std::unique_ptr<models::Model> model_;
};

std::unique_ptr<models::Model> EngineInvariance::model_;

TEST_F(EngineInvariance, NeitherNeighboursNorLimitsMatter) {
  const std::vector<Request> asked = requests(12, 100);  // long enough to outgrow a small pool
  std::vector<Answer> expected;
  for (const Request& request : asked) expected.push_back(alone(request));

  EXPECT_EQ(run(asked, {}, 2), expected);
  EXPECT_EQ(run(asked, {.max_sequences = 5, .max_batch_tokens = 7}, 3), expected);
  EngineStats stats;
  EXPECT_EQ(run(asked, {.max_sequences = 12, .max_batch_tokens = 19, .max_context = 144, .kv_blocks = 9}, 2,
                &stats),
            expected);
  EXPECT_GT(stats.preemptions, 0U);
}

TEST_F(EngineInvariance, PinnedRequestsAreExactAmongNeighboursThatAreNot) {
  std::vector<Request> asked = requests(12, 30);
  std::vector<Answer> expected;
  for (Request& request : asked) {
    request.max_tokens = 30;
    expected.push_back(alone(request));
  }
  for (const std::size_t pinned : {2U, 7U}) asked[pinned].exact_routing = true;
  EngineStats stats;
  const std::vector<Answer> answers = run(asked, {.policy = oea(2, 1)}, 2, &stats);
  int changed = 0;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (asked[i].exact_routing) {
      EXPECT_EQ(answers[i], expected[i]) << i;
    } else {
      changed += answers[i] == expected[i] ? 0 : 1;
    }
  }
  EXPECT_GT(changed, 5) << "the policy did nothing, so nothing was shown";
  EXPECT_LT(stats.decode_routing.mean_experts(), stats.decode_routing.mean_experts_exact());
}

TEST_F(EngineInvariance, APolicyThatIsOffIsExact) {
  const std::vector<Request> asked = requests(8, 20);
  const std::vector<Answer> expected = run(asked, {}, 2);
  EXPECT_EQ(run(asked, {.policy = oea(model_->info().router.top_k, 1)}, 2), expected);
  EXPECT_EQ(run(asked, {.policy = oea(2, 9)}, 2), expected);  // never so many decode rows
  EXPECT_NE(run(asked, {.policy = oea(2, 1)}, 2), expected);
}

}  // namespace
}  // namespace tagalong::engine
