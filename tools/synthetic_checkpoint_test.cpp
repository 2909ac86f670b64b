// A synthetic checkpoint loads, computes sane numbers and spreads its tokens over the experts.
#include "synthetic_checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_testing.h"
#include "golden/model_harness.h"
#include "kernels/select.h"

namespace tagalong::tools {
namespace {

void write(const SyntheticShape& shape, const std::filesystem::path& directory, std::uint64_t seed = 1) {
  write_checkpoint(synthetic_model(shape), directory, seed, [](int, int) {});
}

std::string content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Distinct experts of each layer that was routed.
struct DistinctExperts : routing::RouteObserver {
  std::vector<int> counts;
  void routed(int, std::span<const routing::RowRole>, const routing::RoutePlan& plan) override {
    counts.push_back(plan.stats.experts);
  }
};

class SyntheticCheckpoint : public testing::TestWithParam<SyntheticShape> {};

TEST_P(SyntheticCheckpoint, LoadsAndRoutesNearlyUniformly) {
  const checkpoint::TestFolder folder;
  write(GetParam(), folder.path());
  DistinctExperts distinct;
  testing_support::ModelHarness model(folder.path(),
                                      {.kernels = kernels::select_kernels("auto"), .routing = &distinct});
  const models::ModelInfo& info = model.info();
  constexpr int kRows = 8;
  constexpr int kSteps = 12;
  std::mt19937 random(3);
  std::vector<std::vector<std::int32_t>> sequences(kRows, std::vector<std::int32_t>(kSteps));
  for (auto& sequence : sequences) {
    for (auto& id : sequence) {
      id = static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(info.vocab));
    }
  }
  model.start(sequences);
  for (int step = 0; step < kSteps; ++step) {
    model.step(std::vector<int>(kRows, 1), routing::RowRole::kDecode);
  }
  ASSERT_EQ(distinct.counts.size(), static_cast<std::size_t>(kSteps * info.moe_layers));
  const double mean = std::accumulate(distinct.counts.begin(), distinct.counts.end(), 0.0) /
                      static_cast<double>(distinct.counts.size());
  const double missed = 1 - static_cast<double>(info.router.top_k) / info.router.experts;
  const double uniform = info.router.experts * (1 - std::pow(missed, kRows));
  // A router that favours some experts touches fewer: with the same few for every token, a third of these.
  EXPECT_GT(mean, 0.9 * uniform);
  EXPECT_LT(mean, 1.1 * uniform);

  for (const testing_support::Trace& trace : model.traces()) {
    double square = 0;
    const auto& last = trace.points.at("layer." + std::to_string(info.layers - 1));
    for (const float v : last) square += static_cast<double>(v) * v;
    const double rms = std::sqrt(square / static_cast<double>(last.size()));
    EXPECT_GT(rms, 0.5);
    EXPECT_LT(rms, 10.0);
    EXPECT_TRUE(
        std::all_of(trace.logits.begin(), trace.logits.end(), [](float v) { return std::isfinite(v); }));
  }
}

// The tokens of a long prompt see each other's values and still go their own ways.
TEST(SyntheticModel, RoutesALongPromptNearlyUniformly) {
  const checkpoint::TestFolder folder;
  write({.like = "qwen3-tiny", .layers = 12}, folder.path());
  DistinctExperts distinct;
  testing_support::ModelHarness model(folder.path(),
                                      {.kernels = kernels::select_kernels("auto"), .routing = &distinct});
  constexpr int kTokens = 200;
  std::mt19937 random(5);
  std::vector<std::int32_t> tokens(kTokens);
  for (auto& id : tokens) {
    id = static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(model.info().vocab));
  }
  model.start({tokens});
  model.prefill();
  for (const int experts : distinct.counts) EXPECT_EQ(experts, model.info().router.experts);
}

INSTANTIATE_TEST_SUITE_P(Shapes, SyntheticCheckpoint,
                         testing::Values(SyntheticShape{.like = "qwen3-tiny"},
                                         SyntheticShape{.like = "qwen3-tiny", .layers = 2, .nvfp4 = false},
                                         SyntheticShape{.like = "glm-tiny", .vocab = 300}),
                         [](const auto& shape) {
                           std::string name = shape.param.like + (shape.param.nvfp4 ? "_nvfp4" : "_bf16");
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(SyntheticModel, TheSeedDecidesEveryByte) {
  const checkpoint::TestFolder first;
  const checkpoint::TestFolder second;
  const checkpoint::TestFolder other;
  const SyntheticShape shape{.like = "qwen3-tiny", .layers = 1};
  write(shape, first.path());
  write(shape, second.path());
  write(shape, other.path(), 2);
  EXPECT_EQ(content(first.path() / "model.safetensors"), content(second.path() / "model.safetensors"));
  EXPECT_NE(content(first.path() / "model.safetensors"), content(other.path() / "model.safetensors"));
}

TEST(SyntheticModel, HasTheParametersOfTheModelItIsLike) {
  const auto billions = [](const SyntheticShape& shape) {
    double count = 0;
    for (const SyntheticTensor& t : synthetic_model(shape).tensors) {
      count += static_cast<double>(t.rows) * static_cast<double>(std::max<std::int64_t>(t.columns, 1));
    }
    return count / 1e9;
  };
  EXPECT_NEAR(billions({.like = "qwen3-30b-a3b"}), 30.5, 0.1);
  // Of GLM-5's 743.9 billion, three layers are dense with 12288 units; here they are MoE layers.
  const double experts = 3 * 257 * 3 * 6144.0 * 2048 / 1e9;
  const double dense = 3 * 3 * 6144.0 * 12288 / 1e9;
  EXPECT_NEAR(billions({.like = "glm-5"}), 743.9 - dense + experts, 0.5);
}

TEST(SyntheticModel, NamesTheShapesItKnows) {
  const std::string message = checkpoint::refusal([] { synthetic_model({.like = "qwen9"}); });
  EXPECT_NE(message.find("'qwen9'"), std::string::npos);
  EXPECT_NE(message.find("qwen3-30b-a3b"), std::string::npos);
  EXPECT_NE(message.find("glm-5"), std::string::npos);
}

TEST(SyntheticModel, SaysWhereItCannotWrite) {
  const checkpoint::TestFolder folder;
  folder.write("taken", "");
  EXPECT_NE(checkpoint::refusal([&] {
              write({.like = "qwen3-tiny", .layers = 1}, folder.path() / "taken");
            }).find("taken"),
            std::string::npos);
}

}  // namespace
}  // namespace tagalong::tools
