// From an engine's run of the bundled model to the replay: what is recorded, what the engine counts and what
// the replay of the record counts are the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "engine/engine.h"
#include "kernels/select.h"
#include "models/model.h"
#include "route_replay.h"
#include "routing/recorder.h"

namespace tagalong::tools {
namespace {

struct Recording {
  std::stringstream record;
  engine::EngineStats stats;
  std::vector<routing::LayerTotals> layers;  // both kinds of steps
};

class RecordedRun : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    base::ThreadPool pool(1);
    const auto directory = std::filesystem::path(TAGALONG_SOURCE_DIR) / "models/storyteller";
    model_ = models::load_model(checkpoint::Checkpoint::open(directory),
                                {.kernels = kernels::select_kernels("auto"), .pool = pool});
  }
  static void TearDownTestSuite() { model_.reset(); }

  // Nine requests of unequal length, five at a time: steps with prompts and without.
  static Recording run(routing::RecorderMode mode, const char* policy_text) {
    Recording result;
    const routing::RoutingPolicy policy = routing::parse_policy(policy_text);
    routing::Recorder recorder(mode, "m", policy, model_->info().router, model_->info().moe_layers,
                               result.record);
    base::ThreadPool pool(2);
    engine::Engine engine(
        *model_, pool, {.max_sequences = 5, .max_batch_tokens = 16, .policy = policy, .recorder = &recorder});
    for (std::int32_t i = 0; i < 9; ++i) {
      engine::Request request;
      for (std::int32_t t = 0; t < 4 + 3 * i; ++t) request.prompt.push_back((97 * i + 31 * t) % 4096);
      request.max_tokens = 5 + i;
      engine.submit(request, [](const engine::TokenEvent&) {});
    }
    while (engine.step()) {
    }
    recorder.finish();
    result.stats = engine.stats();
    for (int layer = 0; layer < model_->info().moe_layers; ++layer) {
      routing::LayerTotals totals = engine.routing_log().decode().snapshot(layer);
      const routing::LayerTotals mixed = engine.routing_log().mixed().snapshot(layer);
      totals.add(mixed);
      for (std::size_t e = 0; e < totals.tokens.size(); ++e) totals.tokens[e] += mixed.tokens[e];
      result.layers.push_back(totals);
    }
    return result;
  }

  static routing::RoutingTotals all_of(const Recording& run) {
    routing::RoutingTotals all = run.stats.decode_routing;
    all.add(run.stats.mixed_routing);
    return all;
  }

  static std::unique_ptr<models::Model> model_;
};

std::unique_ptr<models::Model> RecordedRun::model_;

TEST_F(RecordedRun, TheReplayCountsWhatTheEngineCounted) {
  Recording recorded = run(routing::RecorderMode::kPerToken, "exact");
  EXPECT_GT(recorded.stats.decode_steps, 0U);
  EXPECT_GT(recorded.stats.steps, recorded.stats.decode_steps);
  const routing::RoutingTotals all = all_of(recorded);
  const RouteTrace trace = read_route_trace(recorded.record, "record");
  const ReplayTotals again = replay(trace, {}, 1).all;
  EXPECT_EQ(static_cast<std::uint64_t>(again.steps), all.layer_steps);
  EXPECT_EQ(static_cast<std::uint64_t>(again.decode_rows), all.decode_rows);
  EXPECT_EQ(static_cast<std::uint64_t>(again.experts_exact), all.experts_exact);
  EXPECT_EQ(again.experts, again.experts_exact);
  EXPECT_EQ(again.replaced_slots, 0);
}

// The model's router has a bias: a row's votes are the first of its recorded ids, whatever their weights.
TEST_F(RecordedRun, VotesFollowTheRecordedOrder) {
  Recording recorded = run(routing::RecorderMode::kPerToken, "exact");
  std::int64_t expected = 0;
  bool weights_disagree = false;
  std::string line;
  std::getline(recorded.record, line);
  while (std::getline(recorded.record, line)) {
    const auto step = nlohmann::json::parse(line);
    std::set<int> votes;
    for (std::size_t row = 0; row < step["ids"].size(); ++row) {
      const auto& ids = step["ids"][row];
      const std::size_t used = step["decode"][row] == 1 ? 2 : model_->info().router.top_k;
      for (std::size_t i = 0; i < used; ++i) votes.insert(ids[i].get<int>());
      weights_disagree = weights_disagree || step["w"][row][0] < step["w"][row][1];
    }
    expected += static_cast<std::int64_t>(votes.size());
  }
  EXPECT_TRUE(weights_disagree) << "the bias has no say: this shows nothing";
  recorded.record.clear();
  recorded.record.seekg(0);
  const RouteTrace trace = read_route_trace(recorded.record, "record");
  for (const char* policy : {"pruned:k0=2", "oea:k0=2,min_rows=1"}) {
    EXPECT_EQ(replay(trace, routing::parse_policy(policy), 1).all.experts, expected) << policy;
  }
}

TEST_F(RecordedRun, SumsAndPassesAgreeWithTheEngine) {
  for (const char* policy : {"exact", "oea:k0=3"}) {
    SCOPED_TRACE(policy);
    Recording sums = run(routing::RecorderMode::kStat, policy);
    std::string line;
    std::getline(sums.record, line);
    EXPECT_EQ(nlohmann::json::parse(line)["policy"], policy);
    for (const routing::LayerTotals& totals : sums.layers) {
      ASSERT_TRUE(std::getline(sums.record, line));
      const auto layer = nlohmann::json::parse(line);
      EXPECT_EQ(layer["steps"], totals.layer_steps);
      EXPECT_EQ(layer["mean_experts"], totals.mean_experts());
      EXPECT_EQ(layer["mean_experts_exact"], totals.mean_experts_exact());
      EXPECT_EQ(layer["replaced_slots"], totals.replaced_slots);
      EXPECT_EQ(layer["tokens"].get<std::vector<std::uint64_t>>(), totals.tokens);
      EXPECT_NEAR(layer["kept_mass"].get<double>(), totals.mean_kept_mass(), 1e-12);
    }
    EXPECT_FALSE(std::getline(sums.record, line));

    Recording passes = run(routing::RecorderMode::kPerPass, policy);
    std::uint64_t experts = 0;
    std::uint64_t lines = 0;
    std::getline(passes.record, line);
    for (; std::getline(passes.record, line); ++lines) {
      const auto pass = nlohmann::json::parse(line);
      EXPECT_EQ(pass["step"], lines / static_cast<std::uint64_t>(model_->info().moe_layers));
      experts += pass["experts"].get<std::uint64_t>();
      ASSERT_EQ(pass["active"].size(), pass["tokens"].size());
    }
    EXPECT_EQ(lines, all_of(passes).layer_steps);
    EXPECT_EQ(experts, all_of(passes).experts);
    EXPECT_EQ(all_of(passes).experts, all_of(sums).experts) << "recording must not change the run";
  }
}

// In a step of five decoding rows and k0 = 1 the random set has at most five experts, fewer than k, so that
// every row uses all of it. Were the draws the same in each step, of any two sets one would hold the other.
TEST_F(RecordedRun, TheRandomControlDrawsAnewEachStep) {
  Recording recorded = run(routing::RecorderMode::kPerToken, "random-set:k0=1");
  const int experts = model_->info().router.experts;
  std::vector<std::set<int>> sets;
  std::string line;
  std::getline(recorded.record, line);
  while (std::getline(recorded.record, line)) {
    const auto step = nlohmann::json::parse(line);
    const auto decode = step["decode"].get<std::vector<int>>();
    if (step["layer"] != 0 || decode.size() < 2 || std::ranges::find(decode, 0) != decode.end()) continue;
    auto used = step["ids"][0].get<std::set<int>>();
    std::erase_if(used, [experts](int id) { return id >= experts; });  // the shared one
    sets.push_back(used);
  }
  ASSERT_GT(sets.size(), 2U);
  int unlike = 0;
  for (std::size_t i = 1; i < sets.size(); ++i) {
    unlike += !std::ranges::includes(sets[i], sets[i - 1]) && !std::ranges::includes(sets[i - 1], sets[i]);
  }
  EXPECT_GT(unlike, 0);
}

}  // namespace
}  // namespace tagalong::tools
