#include "model_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

namespace tagalong::tools {
namespace {

using checkpoint::Checkpoint;

ModelSummary golden(const char* name) {
  return summarize(
      Checkpoint::open(std::filesystem::path(TAGALONG_SOURCE_DIR) / "tests/golden/glm_moe_dsa" / name));
}

const TensorGroup& group(const ModelSummary& summary, std::string_view name) {
  const auto found = std::find_if(summary.groups.begin(), summary.groups.end(),
                                  [&](const TensorGroup& candidate) { return candidate.name == name; });
  EXPECT_NE(found, summary.groups.end()) << name;
  return found == summary.groups.end() ? summary.total : *found;
}

TEST(ModelSummary, GroupsAddUpToTheTotal) {
  for (const char* name : {"bf16", "f32", "nvfp4", "nvfp4_groups", "nvfp4_shared_indexer"}) {
    const ModelSummary summary = golden(name);
    TensorGroup sum;
    for (const TensorGroup& part : summary.groups) {
      sum.tensors += part.tensors;
      sum.parameters += part.parameters;
      sum.bytes += part.bytes;
    }
    EXPECT_EQ(sum.tensors, summary.total.tensors) << name;
    EXPECT_EQ(sum.parameters, summary.total.parameters) << name;
    EXPECT_EQ(sum.bytes, summary.total.bytes) << name;
  }
}

TEST(ModelSummary, CountsNvfp4ByItsNumbersNotItsBytes) {
  const ModelSummary summary = golden("nvfp4");
  const TensorGroup& experts = group(summary, "routed experts");
  EXPECT_EQ(experts.formats.size(), 1U);
  EXPECT_EQ(experts.formats.begin()->first, "NVFP4");
  // Half a byte and a sixteenth of a byte each, and a factor of four bytes for each of the weights.
  const std::int64_t weights = experts.tensors / 3;
  EXPECT_EQ(experts.bytes, experts.parameters / 2 + experts.parameters / 16 + 4 * weights);
}

TEST(ModelSummary, TheStepOfOneRowReadsItsExpertsOnce) {
  const ModelSummary summary = golden("bf16");
  const TensorGroup& experts = group(summary, "routed experts");
  ASSERT_EQ(summary.expert_layers.size(), 2U);
  EXPECT_EQ(summary.expert_layers[0].experts, 8);
  EXPECT_EQ(summary.experts_per_token, 3);
  EXPECT_DOUBLE_EQ(summary.expert_bytes_per_step(1), static_cast<double>(experts.bytes) * 3 / 8);
  EXPECT_EQ(summary.fixed_bytes, summary.total.bytes - experts.bytes - group(summary, "embedding").bytes);
}

TEST(ModelSummary, ManyRowsReachAllExperts) {
  const ModelSummary summary = golden("bf16");
  EXPECT_DOUBLE_EQ(summary.expected_distinct(8, 1), 3);
  EXPECT_DOUBLE_EQ(summary.expected_distinct(8, 2), 8 * (1 - 25.0 / 64));
  EXPECT_NEAR(summary.expected_distinct(8, 1000), 8, 1e-9);
  EXPECT_EQ(summary.expected_distinct(2, 1), 2) << "a layer with fewer experts than a token wants";
  EXPECT_EQ(summary.expected_distinct(0, 16), 0);
}

TEST(ModelSummary, CacheCountsLatentRopeAndTheIndexersThatRun) {
  // Per layer 32 + 8 and, where the layer has an indexer of its own, 16.
  EXPECT_EQ(golden("bf16").kv_values_per_token, 3 * (32 + 8 + 16));
  EXPECT_EQ(golden("nvfp4_shared_indexer").kv_values_per_token, 4 * (32 + 8) + 2 * 16);
}

}  // namespace
}  // namespace tagalong::tools
