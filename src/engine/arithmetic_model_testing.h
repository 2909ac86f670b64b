// A small model for the engine's tests: the logits after a token are a hash of all tokens of its sequence,
// read back from the KV cache through the block table. Whoever writes to a wrong slot, skips a position or
// mixes two sequences up changes the tokens that follow. It also checks every batch it is given. Not
// thread-safe.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "engine/request.h"
#include "engine/sampler.h"
#include "models/model.h"

namespace tagalong::engine {

class ArithmeticModel : public models::Model {
 public:
  // Ids and positions up to 256 are exact in bf16, which is how the cache may keep them.
  static constexpr int kVocab = 61;
  static constexpr int kMoeLayers = 2;

  explicit ArithmeticModel(int max_context) {
    info_.architecture = "arithmetic";
    info_.vocab = kVocab;
    info_.max_context = max_context;
    info_.layers = info_.moe_layers = kMoeLayers;
    info_.router.experts = 8;
    info_.router.top_k = 2;
    info_.kv_planes = {1, 1};  // id, position
  }

  const models::ModelInfo& info() const override { return info_; }

  std::unique_ptr<models::Workspace> make_workspace(const models::WorkspaceLimits& limits) const override {
    auto workspace = std::make_unique<Room>();
    workspace->limits = limits;
    workspace->plan.reserve(limits.rows, info_.router, limits.policy);
    return workspace;
  }

  void forward(const models::Batch& batch, const models::StepContext& context, models::Workspace& workspace,
               std::span<float> logits) const override {
    check(batch, static_cast<const Room&>(workspace));
    EXPECT_LE(context.pool.size(), static_cast<const Room&>(workspace).limits.workers);
    for (int row = 0; row < batch.rows(); ++row) {
      const float id = static_cast<float>(at(batch.ids, row));
      const float position = static_cast<float>(at(batch.positions, row));
      context.kv.write(0, slot(batch, row, at(batch.positions, row)), {&id, 1});
      context.kv.write(1, slot(batch, row, at(batch.positions, row)), {&position, 1});
    }
    for (std::size_t i = 0; i < batch.logit_rows.size(); ++i) {
      const int row = batch.logit_rows[i];
      std::uint64_t hash = 0;
      for (int position = 0; position <= at(batch.positions, row); ++position) {
        const std::int32_t from = slot(batch, row, position);
        if (read(context.kv, 1, from) != position)
          ADD_FAILURE() << "position " << position << " is not cached";
        hash = extend(hash, read(context.kv, 0, from));
      }
      fill_logits(hash, logits.subspan(i * kVocab, kVocab));
    }
    int decode_rows = 0;
    for (const routing::RowRole role : batch.roles) decode_rows += role == routing::RowRole::kDecode ? 1 : 0;
    // Made-up costs; no expert has an entry.
    routing::RoutePlan& plan = static_cast<Room&>(workspace).plan;
    plan.rows = batch.rows();
    plan.stats = {.rows = batch.rows(), .decode_rows = decode_rows, .experts_exact = 6, .experts = 4};
    if (context.routing != nullptr) {
      for (int layer = 0; layer < kMoeLayers; ++layer) context.routing->routed(layer, batch.roles, plan);
    }
    most_rows = std::max(most_rows, batch.rows());
    last_roles.assign(batch.roles.begin(), batch.roles.end());
    last_positions.assign(batch.positions.begin(), batch.positions.end());
  }

  static std::uint64_t extend(std::uint64_t hash, int id) {
    hash = (hash + static_cast<std::uint64_t>(id) + 1) * 0x9E3779B97F4A7C15ULL;
    return hash ^ (hash >> 29);
  }

  static void fill_logits(std::uint64_t hash, std::span<float> logits) {
    for (std::size_t v = 0; v < logits.size(); ++v) {
      logits[v] = static_cast<float>((hash * (2 * v + 3)) >> 54) / 256;  // 0 to 4
    }
  }

  // What the request must get, whatever else the engine does: computed without any of the engine.
  static std::vector<std::int32_t> answer(const Request& request, int max_context) {
    Sampler sampler(kVocab);
    std::vector<float> logits(kVocab);
    std::vector<std::int32_t> answer;
    std::uint64_t hash = 0;
    for (const std::int32_t id : request.prompt) hash = extend(hash, id);
    const int prompt = static_cast<int>(request.prompt.size());
    while (static_cast<int>(answer.size()) < std::min(request.max_tokens, max_context - prompt)) {
      fill_logits(hash, logits);
      answer.push_back(sampler.pick(logits, request.sampling, prompt + static_cast<int>(answer.size())).id);
      hash = extend(hash, answer.back());
      if (std::count(request.stop_ids.begin(), request.stop_ids.end(), answer.back()) > 0) break;
    }
    return answer;
  }

  // Of the batches so far. Room for them is made here, so that forward() does not allocate.
  mutable int most_rows = 0;
  mutable std::vector<routing::RowRole> last_roles = std::vector<routing::RowRole>(1024);
  mutable std::vector<std::int32_t> last_positions = std::vector<std::int32_t>(1024);

 private:
  struct Room : models::Workspace {
    models::WorkspaceLimits limits{};
    routing::RoutePlan plan;
  };

  template <typename T>
  static T at(const std::vector<T>& values, int row) {
    return values[static_cast<std::size_t>(row)];
  }

  static std::int32_t slot(const models::Batch& batch, int row, std::int32_t position) {
    return batch.tables[static_cast<std::size_t>(at(batch.sequences, row))]->slot(position);
  }

  static int read(const cache::KvStore& kv, int plane, std::int32_t slot) {
    const std::byte* data = kv.plane(plane) + static_cast<std::size_t>(slot) * cache::kv_bytes(kv.type());
    std::uint32_t bits = 0;
    if (kv.type() == cache::KvType::kF32) {
      std::memcpy(&bits, data, 4);
    } else {
      std::memcpy(reinterpret_cast<std::byte*>(&bits) + 2, data, 2);
    }
    return static_cast<int>(std::bit_cast<float>(bits));
  }

  static void check(const models::Batch& batch, const Room& room) {
    const auto rows = static_cast<std::size_t>(batch.rows());
    EXPECT_GE(batch.rows(), 1);
    EXPECT_LE(batch.rows(), room.limits.rows);
    EXPECT_LE(static_cast<int>(batch.logit_rows.size()), room.limits.logit_rows);
    EXPECT_TRUE(batch.positions.size() == rows && batch.sequences.size() == rows &&
                batch.roles.size() == rows);
    EXPECT_TRUE(std::is_sorted(batch.logit_rows.begin(), batch.logit_rows.end()));
    for (int row = 0; row < batch.rows(); ++row) {
      const int sequence = at(batch.sequences, row);
      const int position = at(batch.positions, row);
      ASSERT_TRUE(sequence >= 0 && sequence < static_cast<int>(batch.tables.size()));
      const auto& blocks = batch.tables[static_cast<std::size_t>(sequence)]->blocks;
      ASSERT_LT(position, static_cast<int>(blocks.size()) * cache::kBlockTokens);
      // Rows of a sequence stand together and in order, and decoding comes first.
      if (row == 0) continue;
      EXPECT_TRUE(sequence == at(batch.sequences, row - 1) ? position == at(batch.positions, row - 1) + 1
                                                           : sequence == at(batch.sequences, row - 1) + 1);
      EXPECT_TRUE(at(batch.roles, row) == routing::RowRole::kPrefill ||
                  at(batch.roles, row - 1) != routing::RowRole::kPrefill);
    }
    // No block belongs to two sequences.
    for (std::size_t a = 0; a < batch.tables.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        for (const std::int32_t block : batch.tables[a]->blocks) {
          EXPECT_EQ(std::count(batch.tables[b]->blocks.begin(), batch.tables[b]->blocks.end(), block), 0);
        }
      }
    }
  }

  models::ModelInfo info_;
};

}  // namespace tagalong::engine
