// glm_moe_dsa against transformers: tiny random checkpoints, values per layer and logits computed in float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "golden/dequantised_checkpoint.h"
#include "golden/model_harness.h"
#include "kernels/select.h"

namespace tagalong {
namespace {

using testing_support::DequantisedCheckpoint;
using testing_support::ModelHarness;
using testing_support::Trace;

const std::filesystem::path kFolder = std::filesystem::path(TAGALONG_SOURCE_DIR) / "tests/golden/glm_moe_dsa";

struct Golden {
  std::filesystem::path directory;
  std::vector<std::vector<std::int32_t>> prompts;
  int single = 0;
  std::vector<int> batch;
  nlohmann::json differences;
  checkpoint::SafetensorsFile expected;

  explicit Golden(const std::string& variant)
      : directory(kFolder / variant), expected(directory / "expected.safetensors") {
    const auto json = nlohmann::json::parse(std::ifstream(directory / "prompts.json"));
    prompts = json.at("prompts").get<std::vector<std::vector<std::int32_t>>>();
    single = json.at("single").get<int>();
    batch = json.at("batch").get<std::vector<int>>();
    differences = json.at("differences");
  }

  std::vector<float> values(const std::string& name) const {
    const tensor::Tensor* tensor = expected.find(name);
    if (tensor == nullptr) throw std::runtime_error("no " + name);
    std::vector<float> out(static_cast<std::size_t>(tensor->shape.elements()));
    std::memcpy(out.data(), tensor->data, out.size() * sizeof(float));
    return out;
  }

  // How far float32 arithmetic may be from float64: four times the distance that the reference
  // implementation's own float32 has, whose sums are as long as ours but in another order.
  double tolerance(const std::string& kind) const {
    return 4 * differences.at("float32_vs_float64").at(kind).get<double>();
  }
};

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double d = std::fabs(static_cast<double>(a[i]) - b[i]);
    // Not a number is no agreement.
    largest = std::isnan(d) ? INFINITY : std::max(largest, d);
  }
  return largest;
}

// ||a - b|| / ||b||.
double relative_distance(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double square = 0;
  double norm = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    square += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
    norm += static_cast<double>(b[i]) * b[i];
  }
  return std::sqrt(square / norm);
}

void expect_matches(const Golden& golden, int prompt, const Trace& trace, int layers) {
  const std::string name = fmt::format("prompt.{}.", prompt);
  EXPECT_EQ(largest_difference(trace.points.at("embedding"), golden.values(name + "embedding")), 0.0);
  for (int i = 0; i < layers; ++i) {
    EXPECT_LE(largest_difference(trace.points.at(fmt::format("layer.{}", i)),
                                 golden.values(fmt::format("{}layer.{}.output", name, i))),
              golden.tolerance("output"))
        << golden.directory << " prompt " << prompt << " layer " << i;
  }
  EXPECT_LE(largest_difference(trace.logits, golden.values(name + "logits")), golden.tolerance("logits"))
      << golden.directory << " prompt " << prompt;
}

class GlmMoeDsa : public testing::TestWithParam<std::string> {};

// The NVFP4 variants run with their weights widened to F32, so that only the reading of the format and the
// model's arithmetic are judged, not the int8 activations.
TEST_P(GlmMoeDsa, MatchesTransformersPerLayerOnEveryInstructionSet) {
  const Golden golden(GetParam());
  const DequantisedCheckpoint widened(golden.directory);
  for (const kernels::Kernels* kernels : kernels::available_kernels()) {
    ModelHarness model(widened.path(), {.kernels = *kernels});
    model.start({golden.prompts[golden.single]});
    model.prefill();
    expect_matches(golden, golden.single, model.traces()[0], model.info().layers);
  }
}

TEST_P(GlmMoeDsa, MatchesTransformersInABatchOfUnequalLengths) {
  const Golden golden(GetParam());
  const DequantisedCheckpoint widened(golden.directory);
  ModelHarness model(widened.path(), {.kernels = kernels::select_kernels("auto")});
  std::vector<std::vector<std::int32_t>> prompts;
  for (const int p : golden.batch) prompts.push_back(golden.prompts[p]);
  model.start(prompts);
  model.prefill();
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    expect_matches(golden, golden.batch[i], model.traces()[i], model.info().layers);
  }
}

TEST_P(GlmMoeDsa, MatchesTransformersDecodedTokenByToken) {
  const Golden golden(GetParam());
  const DequantisedCheckpoint widened(golden.directory);
  ModelHarness model(widened.path(), {.kernels = kernels::select_kernels("auto")});
  std::vector<std::vector<std::int32_t>> prompts;
  for (const int p : golden.batch) prompts.push_back(golden.prompts[p]);
  model.start(prompts);
  for (std::size_t t = 0; t < 40; ++t) {
    std::vector<int> counts;
    for (const auto& prompt : prompts) counts.push_back(t < prompt.size() ? 1 : 0);
    model.step(counts, routing::RowRole::kDecode);
  }
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    expect_matches(golden, golden.batch[i], model.traces()[i], model.info().layers);
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, GlmMoeDsa,
                         testing::Values("f32", "bf16", "nvfp4", "nvfp4_groups", "nvfp4_shared_indexer"),
                         [](const auto& variant) { return variant.param; });

// The int8 activations of the NVFP4 path. A group of 16 is rounded in steps of amax / 127, and amax is at
// most four times its root mean square, so one rounding errs by at most 4 / 127 / sqrt(12) = 0.91 % of the
// group's norm; input and intermediate of a MoE layer are rounded once each, the gated product doubles what
// the first does, and independent errors add in squares: 0.91 % * sqrt(4 + 1) = 2.0 % of the layer's own
// output, which is only a part of the residual stream that is compared.
void expect_rounding_of_activations(kernels::Compute compute, double per_layer) {
  for (const char* variant : {"nvfp4", "nvfp4_groups", "nvfp4_shared_indexer"}) {
    const Golden golden(variant);
    ModelHarness model(golden.directory, {.kernels = kernels::select_kernels("auto", compute)});
    model.start({golden.prompts[golden.single]});
    model.prefill();
    const Trace& trace = model.traces()[0];
    const int dense = model.info().layers - model.info().moe_layers;
    for (int i = 0; i < model.info().layers; ++i) {
      const auto expected = golden.values(fmt::format("prompt.{}.layer.{}.output", golden.single, i));
      const double bound = per_layer * std::max(0, i + 1 - dense);
      const double distance = relative_distance(trace.points.at(fmt::format("layer.{}", i)), expected);
      testing::Test::RecordProperty(fmt::format("{}_layer_{}", variant, i), fmt::format("{:.7f}", distance));
      EXPECT_LE(distance, i < dense ? 1e-6 : bound) << variant << " layer " << i;
    }
  }
}

TEST(GlmMoeDsaInt8, StaysWithinTheRoundingOfItsActivations) {
  expect_rounding_of_activations(kernels::Compute::kFast, 0.0204);
}

// Steps of amax / 16256 instead: a 128th of the above.
TEST(GlmMoeDsaInt15, StaysWithinTheRoundingOfItsActivations) {
  expect_rounding_of_activations(kernels::Compute::kAccurate, 0.0204 / 128);
}

}  // namespace
}  // namespace tagalong
