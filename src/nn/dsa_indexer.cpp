#include "nn/dsa_indexer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "nn/slot_choice.h"

namespace tagalong::nn {

namespace {

// Of transformers' LayerNorm in the indexer; not in any config.
constexpr float kKeyNormEps = 1e-6F;

}  // namespace

DsaWorkspace::DsaWorkspace(const DsaConfig& config, int max_rows, int max_context, int worker_count)
    : queries(static_cast<std::size_t>(max_rows) * static_cast<std::size_t>(config.heads * config.dim)),
      keys(static_cast<std::size_t>(max_rows) * static_cast<std::size_t>(config.dim)),
      weights(static_cast<std::size_t>(max_rows) * static_cast<std::size_t>(config.heads)) {
  runs.resize(static_cast<std::size_t>(max_rows));
  score_stride =
      static_cast<std::size_t>((max_context + kernels::kLanes - 1) / kernels::kLanes * kernels::kLanes);
  for (int w = 0; w < worker_count; ++w) {
    workers.push_back({std::vector<std::int32_t>(static_cast<std::size_t>(max_context)),
                       base::AlignedBuffer<float>(kernels::kAttentionRows * score_stride),
                       base::AlignedBuffer<float>(kernels::attention_scratch(config.heads))});
  }
}

void DsaIndexer::select(const Context& context, const AttentionRows& rows, const RopeAngles& angles,
                        const float* x, const float* q_resid, cache::KvStore& kv, int plane,
                        DsaWorkspace& workspace, QuantizedRows& scratch, SlotSelection& selection) const {
  const int count = rows.count();
  const auto query_width = static_cast<std::size_t>(config.heads * config.dim);
  const auto dim = static_cast<std::size_t>(config.dim);
  key.apply(context, x, count, workspace.keys.data(), scratch);
  query.apply(context, q_resid, count, workspace.queries.data(), scratch);
  weights.apply(context, x, count, workspace.weights.data(), scratch);

  const float head_factor = 1.0F / std::sqrt(static_cast<float>(config.heads));
  context.pool.run(count, [&](int r, int) {
    float* k = workspace.keys.data() + static_cast<std::size_t>(r) * dim;
    context.kernels.layer_norm(k, norm_weight.data(), norm_bias.data(), kKeyNormEps, config.dim, k);
    angles.rotate(r, config.style, k);
    kv.write(plane, rows.slot(r), {k, dim});
    for (int h = 0; h < config.heads; ++h) {
      const auto row = static_cast<std::size_t>(r);
      angles.rotate(r, config.style,
                    workspace.queries.data() + row * query_width + static_cast<std::size_t>(h) * dim);
      workspace.weights[row * static_cast<std::size_t>(config.heads) + h] *= head_factor;
    }
  });

  const auto selects = [&](int r) { return rows.positions[r] + 1 > config.top_k; };
  const int runs = list_runs(
      rows, selects, [](int) { return false; }, workspace.runs.data());
  context.pool.run(runs, [&](int task, int w) {
    const RowRun run = workspace.runs[task];
    DsaWorkspace::Worker& worker = workspace.workers[w];
    std::array<std::int32_t, kernels::kAttentionRows> counts;
    std::array<float*, kernels::kAttentionRows> scores;
    std::int32_t last = 0;
    for (int i = 0; i < run.count; ++i) {
      counts[i] = rows.positions[run.first + i] + 1;
      scores[i] = worker.scores.data() + static_cast<std::size_t>(i) * workspace.score_stride;
      last = std::max(last, rows.positions[run.first + i]);
    }
    list_slots(rows.table(run.first), last, worker.slots.data());
    const auto row = static_cast<std::size_t>(run.first);
    context.kernels.index_scores(
        {.queries = workspace.queries.data() + row * query_width,
         .weights = workspace.weights.data() + row * static_cast<std::size_t>(config.heads),
         .keys = kv.plane(plane),
         .format = cache_format(kv),
         .slots = worker.slots.data(),
         .counts = counts.data(),
         .rows = run.count,
         .heads = config.heads,
         .dim = config.dim,
         .scale = 1.0F / std::sqrt(static_cast<float>(config.dim)),
         .scratch = worker.scratch.data(),
         .out = scores.data()});
    for (int i = 0; i < run.count; ++i) {
      choose_slots(scores[i], counts[i], config.top_k, worker.slots.data(), selection.row(run.first + i));
    }
  });
}

}  // namespace tagalong::nn
