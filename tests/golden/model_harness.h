// Runs a checkpoint directory through a Model as an engine would, for tests: sequences fed in any pieces,
// alone or together, with logits and observed values collected by position.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "kernels/kernels.h"
#include "models/model.h"

namespace tagalong::testing_support {

// What a run produced for one sequence: per position [width] values, concatenated in order of position.
struct Trace {
  std::vector<float> logits;
  std::map<std::string, std::vector<float>> points;  // observed, by name
};

struct RunOptions {
  const kernels::Kernels& kernels;
  base::NodeCrews crews = base::NodeCrews(2);
  cache::KvType kv_type = cache::KvType::kF32;
  routing::RoutingPolicy policy{};
  routing::RouteObserver* routing = nullptr;
};

class ModelHarness {
 public:
  ModelHarness(const std::filesystem::path& directory, const RunOptions& options)
      : pool_(options.crews),
        options_(options),
        checkpoint_(checkpoint::Checkpoint::open(directory)),
        model_(models::load_model(checkpoint_, {.kernels = options.kernels, .pool = pool_})) {}

  const models::ModelInfo& info() const { return model_->info(); }

  // Starts over with these sequences and an empty cache. Blocks are dealt in a scattered order.
  void start(const std::vector<std::vector<std::int32_t>>& sequences) {
    sequences_ = sequences;
    traces_.assign(sequences.size(), {});
    done_.assign(sequences.size(), 0);
    tables_.assign(sequences.size(), {});
    int blocks = 0;
    std::size_t rows = 0;
    for (const auto& s : sequences) {
      blocks += cache::blocks_for(static_cast<int>(s.size()));
      rows += s.size();
    }
    int next = 0;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      for (int b = 0; b < cache::blocks_for(static_cast<int>(sequences[i].size())); ++b) {
        tables_[i].blocks.push_back(blocks - 1 - next++);
      }
    }
    kv_ = std::make_unique<cache::KvStore>(info().kv_planes, blocks, options_.kv_type);
    const int limit = static_cast<int>(rows);
    workspace_ = model_->make_workspace(
        {.rows = limit, .logit_rows = limit, .workers = pool_.size(), .policy = options_.policy});
  }

  // One step: the next `counts[i]` tokens of sequence i, all in one batch.
  void step(const std::vector<int>& counts, routing::RowRole role = routing::RowRole::kPrefill,
            const kernels::Tuning& tuning = {}) {
    models::Batch batch;
    std::vector<std::pair<std::size_t, std::int32_t>> owner;
    for (std::size_t i = 0; i < sequences_.size(); ++i) {
      batch.tables.push_back(&tables_[i]);
      for (int t = 0; t < counts[i]; ++t) {
        batch.logit_rows.push_back(batch.rows());
        batch.ids.push_back(sequences_[i][static_cast<std::size_t>(done_[i])]);
        batch.positions.push_back(done_[i]++);
        batch.sequences.push_back(static_cast<std::int32_t>(i));
        batch.roles.push_back(role);
        owner.emplace_back(i, batch.positions.back());
      }
    }
    const models::Observer observer = [&](std::string_view point, std::span<const float> values) {
      append(owner, values,
             [&](std::size_t i) -> std::vector<float>& { return traces_[i].points[std::string(point)]; });
    };
    std::vector<float> logits(owner.size() * static_cast<std::size_t>(info().vocab));
    const models::StepContext context{.pool = pool_,
                                      .kv = *kv_,
                                      .policy = options_.policy,
                                      .routing = options_.routing,
                                      .observer = &observer,
                                      .tuning = tuning};
    model_->forward(batch, context, *workspace_, logits);
    append(owner, logits, [&](std::size_t i) -> std::vector<float>& { return traces_[i].logits; });
  }

  // Feeds all sequences whole, in one batch.
  void prefill() {
    std::vector<int> counts;
    for (const auto& s : sequences_) counts.push_back(static_cast<int>(s.size()));
    step(counts);
  }

  const std::vector<Trace>& traces() const { return traces_; }

 private:
  template <typename Target>
  static void append(const std::vector<std::pair<std::size_t, std::int32_t>>& owner,
                     std::span<const float> values, Target target) {
    const std::size_t width = values.size() / owner.size();
    for (std::size_t r = 0; r < owner.size(); ++r) {
      auto& to = target(owner[r].first);
      to.insert(to.end(), values.begin() + static_cast<std::ptrdiff_t>(r * width),
                values.begin() + static_cast<std::ptrdiff_t>((r + 1) * width));
    }
  }

  base::ThreadPool pool_;
  RunOptions options_;
  checkpoint::Checkpoint checkpoint_;
  std::unique_ptr<models::Model> model_;
  std::vector<std::vector<std::int32_t>> sequences_;
  std::vector<int> done_;
  std::vector<cache::BlockTable> tables_;
  std::unique_ptr<cache::KvStore> kv_;
  std::unique_ptr<models::Workspace> workspace_;
  std::vector<Trace> traces_;
};

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace tagalong::testing_support
