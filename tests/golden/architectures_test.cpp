// Every architecture against transformers: tiny random checkpoints, values per layer and logits computed in
// float64.
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

const std::filesystem::path kFolder = std::filesystem::path(TAGALONG_SOURCE_DIR) / "tests/golden";

struct Golden {
  std::filesystem::path directory;
  std::vector<std::vector<std::int32_t>> prompts;
  int single = 0;
  std::vector<int> batch;
  nlohmann::json differences;
  checkpoint::SafetensorsFile expected;
  bool packed_embedding = false;

  explicit Golden(const std::string& variant)
      : directory(kFolder / variant), expected(directory / "expected.safetensors") {
    const auto json = nlohmann::json::parse(std::ifstream(directory / "prompts.json"));
    prompts = json.at("prompts").get<std::vector<std::vector<std::int32_t>>>();
    single = json.at("single").get<int>();
    batch = json.at("batch").get<std::vector<int>>();
    differences = json.at("differences");
    const checkpoint::SafetensorsFile model(directory / "model.safetensors");
    packed_embedding = model.find("model.embed_tokens.weight_scale") != nullptr;
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
  const auto embedding = golden.values(name + "embedding");
  // The reference multiplies the two scales of NVFP4 first, which rounds once more.
  const float largest = *std::max_element(embedding.begin(), embedding.end());
  EXPECT_LE(largest_difference(trace.points.at("embedding"), embedding),
            golden.packed_embedding ? 0x1p-23 * largest : 0.0);
  for (int i = 0; i < layers; ++i) {
    EXPECT_LE(largest_difference(trace.points.at(fmt::format("layer.{}", i)),
                                 golden.values(fmt::format("{}layer.{}.output", name, i))),
              golden.tolerance("output"))
        << golden.directory << " prompt " << prompt << " layer " << i;
  }
  EXPECT_LE(largest_difference(trace.logits, golden.values(name + "logits")), golden.tolerance("logits"))
      << golden.directory << " prompt " << prompt;
}

class Architectures : public testing::TestWithParam<std::string> {};

// The NVFP4 variants run with their weights widened to F32, so that only the reading of the format and the
// model's arithmetic are judged, not the int8 activations.
TEST_P(Architectures, MatchesTransformersPerLayerOnEveryInstructionSet) {
  const Golden golden(GetParam());
  const DequantisedCheckpoint widened(golden.directory);
  for (const kernels::Kernels* kernels : kernels::available_kernels()) {
    ModelHarness model(widened.path(), {.kernels = *kernels});
    model.start({golden.prompts[golden.single]});
    model.prefill();
    expect_matches(golden, golden.single, model.traces()[0], model.info().layers);
  }
}

TEST_P(Architectures, MatchesTransformersInABatchOfUnequalLengths) {
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

TEST_P(Architectures, MatchesTransformersDecodedTokenByToken) {
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

INSTANTIATE_TEST_SUITE_P(Checkpoints, Architectures,
                         testing::Values("glm_moe_dsa/f32", "glm_moe_dsa/bf16", "glm_moe_dsa/nvfp4",
                                         "glm_moe_dsa/nvfp4_groups", "glm_moe_dsa/nvfp4_shared_indexer",
                                         "qwen3_moe/f32", "qwen3_moe/bf16", "qwen3_moe/nvfp4",
                                         "qwen3_moe/nvfp4_all"),
                         [](const auto& checkpoint) {
                           std::string name = checkpoint.param;
                           std::replace(name.begin(), name.end(), '/', '_');
                           return name;
                         });

// The int8 activations of the NVFP4 path. A group of 16 is rounded in powers of two of at most amax / 63.7,
// and amax is at most four times its root mean square, so one rounding errs by at most 4 / 63.7 / sqrt(12)
// = 1.8 % of the group's norm; input and intermediate of a MoE layer are rounded once each, the gated product
// doubles what the first does, and independent errors add in squares: 1.8 % * sqrt(4 + 1) = 4.1 % of the
// layer's own output, which is only a part of the residual stream that is compared.
//
// With attention in NVFP4 too, a layer rounds twice more: the input of queries, keys and values, and that of
// the output. The first moves values by 1.8 % and, through queries and keys that are normalised per head, a
// score by 1.8 % * sqrt(2), which moves its weight by as much: 1.8 % * sqrt(1 + 2 + 1) = 3.6 % of the
// attention's output, and with the above 5.5 %. What follows such a layer is not compared: its router sees
// the difference and may rightly choose another expert where two are close.
struct RoundingCase {
  const char* variant;
  int first;  // layer with quantised activations; those before it are exact
  int last;   // layer to compare
  double per_layer;
};

void expect_rounding_of_activations(kernels::Compute compute, double finer) {
  for (const RoundingCase& c :
       {RoundingCase{"glm_moe_dsa/nvfp4", 1, 2, 0.0406},
        RoundingCase{"glm_moe_dsa/nvfp4_groups", 1, 2, 0.0406},
        RoundingCase{"glm_moe_dsa/nvfp4_shared_indexer", 2, 3, 0.0406},
        RoundingCase{"qwen3_moe/nvfp4", 0, 2, 0.0406}, RoundingCase{"qwen3_moe/nvfp4_all", 0, 0, 0.0545}}) {
    const Golden golden(c.variant);
    ModelHarness model(golden.directory, {.kernels = kernels::select_kernels("auto", compute)});
    model.start({golden.prompts[golden.single]});
    model.prefill();
    const Trace& trace = model.traces()[0];
    ASSERT_LT(c.last, model.info().layers);
    for (int i = 0; i <= c.last; ++i) {
      const auto expected = golden.values(fmt::format("prompt.{}.layer.{}.output", golden.single, i));
      const double bound = c.per_layer / finer * std::max(0, i + 1 - c.first);
      const double distance = relative_distance(trace.points.at(fmt::format("layer.{}", i)), expected);
      testing::Test::RecordProperty(fmt::format("{}_layer_{}", c.variant, i),
                                    fmt::format("{:.7f}", distance));
      EXPECT_LE(distance, i < c.first ? 1e-6 : bound) << c.variant << " layer " << i;
    }
  }
}

TEST(ArchitecturesInt8, StayWithinTheRoundingOfTheirActivations) {
  expect_rounding_of_activations(kernels::Compute::kFast, 1);
}

// Steps of at most amax / 8159 instead: a 128th of the above.
TEST(ArchitecturesInt15, StayWithinTheRoundingOfTheirActivations) {
  expect_rounding_of_activations(kernels::Compute::kAccurate, 128);
}

}  // namespace
}  // namespace tagalong
