// Law 1 for models: with exact routing the logits of a row do not depend, to the last bit, on the other rows
// of its batch, on how its sequence was cut into steps, on the threads, the nodes of the machine, the tuning
// or the instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "golden/model_harness.h"
#include "kernels/attention.h"
#include "kernels/select.h"
#include "kernels/tuning_testing.h"

namespace tagalong {
namespace {

using routing::RowRole;
using testing_support::ModelHarness;
using testing_support::RunOptions;
using testing_support::same_bits;

using Tokens = std::vector<std::int32_t>;
using Logits = std::vector<float>;

class ModelInvariance : public testing::TestWithParam<std::string> {
 protected:
  std::filesystem::path directory() const { return std::filesystem::path(TAGALONG_SOURCE_DIR) / GetParam(); }

  Tokens random_tokens(const ModelHarness& model, int length) {
    Tokens tokens;
    for (int i = 0; i < length; ++i) {
      tokens.push_back(static_cast<std::int32_t>(random_() % static_cast<std::uint32_t>(model.info().vocab)));
    }
    return tokens;
  }

  // The logits of all rows, the sequence being alone and computed in one step.
  static Logits whole(ModelHarness& model, const Tokens& tokens) {
    model.start({tokens});
    model.prefill();
    return model.traces()[0].logits;
  }

  // Feeds the sequences in steps of random numbers of rows, some of them none, until all are done.
  void feed_in_pieces(ModelHarness& model, const std::vector<Tokens>& sequences) {
    model.start(sequences);
    std::vector<int> left;
    for (const Tokens& s : sequences) left.push_back(static_cast<int>(s.size()));
    while (*std::max_element(left.begin(), left.end()) > 0) {
      std::vector<int> counts;
      int rows = 0;
      for (int& n : left) {
        const int count = std::min(n, static_cast<int>(random_() % 3 == 0 ? random_() % 20 : random_() % 2));
        counts.push_back(count);
        n -= count;
        rows += count;
      }
      if (rows > 0) model.step(counts, random_() % 2 == 0 ? RowRole::kDecode : RowRole::kPrefill);
    }
  }

  // Some sequences, fed in pieces, have the logits to the last bit that the first model of a test gave them
  // alone.
  void expect_logits_of_the_first(ModelHarness& model) {
    if (sequences_.empty()) {
      for (const int length : {kLength, 9, 23}) {
        sequences_.push_back(random_tokens(model, length));
        expected_.push_back(whole(model, sequences_.back()));
      }
    }
    feed_in_pieces(model, sequences_);
    for (std::size_t i = 0; i < sequences_.size(); ++i) {
      EXPECT_TRUE(same_bits(model.traces()[i].logits, expected_[i])) << "sequence " << i;
    }
  }

  static constexpr int kLength = 57;  // crosses block borders, and index_topk of the small checkpoints
  std::mt19937 random_{20};
  std::vector<Tokens> sequences_;
  std::vector<Logits> expected_;
};

TEST_P(ModelInvariance, ChunksOfAnySize) {
  for (const cache::KvType kv_type : {cache::KvType::kBF16, cache::KvType::kF32, cache::KvType::kF8}) {
    ModelHarness model(directory(), {.kernels = kernels::select_kernels("auto"), .kv_type = kv_type});
    const Tokens tokens = random_tokens(model, kLength);
    const Logits expected = whole(model, tokens);
    ASSERT_EQ(expected.size(), static_cast<std::size_t>(kLength * model.info().vocab));
    ASSERT_TRUE(std::all_of(expected.begin(), expected.end(), [](float x) { return std::isfinite(x); }));
    for (const int chunk : {1, 2, 3, 5, 8, 9, 16, 17, 31, 56}) {
      model.start({tokens});
      for (int done = 0; done < kLength; done += chunk) {
        model.step({std::min(chunk, kLength - done)}, chunk == 1 ? RowRole::kDecode : RowRole::kPrefill);
      }
      EXPECT_TRUE(same_bits(model.traces()[0].logits, expected)) << "chunks of " << chunk;
    }
  }
}

TEST_P(ModelInvariance, AloneOrInAnyBatch) {
  ModelHarness model(directory(),
                     {.kernels = kernels::select_kernels("auto"), .kv_type = cache::KvType::kBF16});
  for (int round = 0; round < 4; ++round) {
    std::vector<Tokens> sequences;
    std::vector<Logits> expected;
    for (int i = 0; i < 7; ++i) {
      sequences.push_back(random_tokens(model, 1 + static_cast<int>(random_() % kLength)));
      expected.push_back(whole(model, sequences.back()));
    }
    model.start(sequences);
    model.prefill();
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      EXPECT_TRUE(same_bits(model.traces()[i].logits, expected[i])) << "prefilled together, sequence " << i;
    }
    feed_in_pieces(model, sequences);
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      EXPECT_TRUE(same_bits(model.traces()[i].logits, expected[i])) << "in pieces, sequence " << i;
    }
  }
}

TEST_P(ModelInvariance, AnyThreadsAndInstructionSet) {
  for (const kernels::Kernels* table : kernels::available_kernels()) {
    for (const int threads : {1, 2, 3}) {
      SCOPED_TRACE(testing::Message() << table->name << ", " << threads << " threads");
      ModelHarness model(
          directory(),
          {.kernels = *table, .crews = base::NodeCrews(threads), .kv_type = cache::KvType::kBF16});
      expect_logits_of_the_first(model);
    }
  }
}

// Made-up nodes: weights lie in parts, tasks are dealt to crews.
TEST_P(ModelInvariance, AnyNodes) {
  using Crews = std::vector<base::NodeCrews::Crew>;
  for (const Crews& crews : {Crews{{0, 1}}, Crews{{0, 1}, {1, 1}}, Crews{{0, 2}, {1, 1}},
                             Crews{{0, 1}, {1, 2}, {2, 1}}, Crews{{0, 1}, {1, 1}, {2, 1}, {3, 2}}}) {
    SCOPED_TRACE(testing::Message() << crews.size() << " nodes");
    ModelHarness model(directory(), {.kernels = kernels::select_kernels("auto"),
                                     .crews = base::NodeCrews(crews),
                                     .kv_type = cache::KvType::kBF16});
    expect_logits_of_the_first(model);
  }
}

TEST_P(ModelInvariance, AnyTuning) {
  ModelHarness model(directory(), {.kernels = kernels::select_kernels("auto"),
                                   .crews = base::NodeCrews(3),
                                   .kv_type = cache::KvType::kBF16});
  // More than one part of keys where the model may have so many positions.
  const int length = std::min(model.info().max_context, kernels::kAttentionPart + 30);
  const std::vector<Tokens> sequences{random_tokens(model, length), random_tokens(model, kLength)};
  const std::vector<Logits> expected{whole(model, sequences[0]), whole(model, sequences[1])};
  for (int round = 0; round < 3; ++round) {
    model.start(sequences);
    std::vector<std::string> tunings;
    for (std::vector<int> left{length, kLength}; left[0] > 0;) {
      // Short steps at the end, where a row has the most keys.
      const int longest = left[0] > 12 ? 40 : 1;
      std::vector<int> counts;
      for (int& n : left) {
        counts.push_back(std::min(n, longest));
        n -= counts.back();
      }
      const kernels::Tuning tuning = kernels::random_tuning(random_);
      tunings.push_back(kernels::to_string(tuning));
      model.step(counts, RowRole::kPrefill, tuning);
    }
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      EXPECT_TRUE(same_bits(model.traces()[i].logits, expected[i]))
          << "sequence " << i << ", steps of " << testing::PrintToString(tunings);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, ModelInvariance,
                         testing::Values("models/storyteller", "tests/golden/glm_moe_dsa/bf16",
                                         "tests/golden/glm_moe_dsa/f32", "tests/golden/glm_moe_dsa/nvfp4",
                                         "tests/golden/glm_moe_dsa/nvfp4_groups",
                                         "tests/golden/glm_moe_dsa/nvfp4_shared_indexer",
                                         "tests/golden/qwen3_moe/f32", "tests/golden/qwen3_moe/bf16",
                                         "tests/golden/qwen3_moe/nvfp4", "tests/golden/qwen3_moe/nvfp4_all"),
                         [](const auto& checkpoint) {
                           const std::filesystem::path path = checkpoint.param;
                           return path.parent_path().filename().string() + "_" + path.filename().string();
                         });

}  // namespace
}  // namespace tagalong
