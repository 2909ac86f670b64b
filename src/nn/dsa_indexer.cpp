#include "nn/dsa_indexer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/range.h"
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
  const auto context = static_cast<std::size_t>(max_context);
  score_stride = (context + kernels::kLanes - 1) / kernels::kLanes * kernels::kLanes;
  for (int w = 0; w < worker_count; ++w) {
    lists.push_back({std::vector<std::int32_t>(context),
                     base::AlignedBuffer<float>(kernels::kAttentionRows * score_stride)});
    scratch.emplace_back(kernels::index_scratch(config.heads));
  }
}

void DsaIndexer::select(const Context& context, const AttentionRows& rows, const RopeAngles& angles,
                        const float* x, const float* q_resid, cache::KvStore& kv, int plane,
                        DsaWorkspace& workspace, QuantizedRows& scratch, SlotSelection& selection) const {
  const int count = rows.count();
  const auto dim = static_cast<std::size_t>(config.dim);
  const std::size_t query_width = static_cast<std::size_t>(config.heads) * dim;
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
  const int wave = static_cast<int>(workspace.lists.size());
  for (int first = 0; first < runs; first += wave) {
    const auto some =
        std::span(workspace.runs)
            .subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(std::min(wave, runs - first)));
    score(context, rows, some, kv, plane, workspace);
    context.pool.run(static_cast<int>(some.size()) * kernels::kAttentionRows, [&](int task, int) {
      const std::size_t i = static_cast<std::size_t>(task / kernels::kAttentionRows);
      const int r = task % kernels::kAttentionRows;
      if (r >= some[i].count) return;
      const DsaWorkspace::List& list = workspace.lists[i];
      choose_slots(list.scores.data() + static_cast<std::size_t>(r) * workspace.score_stride,
                   rows.positions[some[i].first + r] + 1, config.top_k, list.slots.data(),
                   selection.row(some[i].first + r));
    });
  }
}

// Scores of the keys of each run into its list. The keys of a run are cut into stretches if there are fewer
// runs than threads: a score depends on its own key only.
void DsaIndexer::score(const Context& context, const AttentionRows& rows, std::span<const RowRun> runs,
                       const cache::KvStore& kv, int plane, DsaWorkspace& workspace) const {
  constexpr int kTasksPerThread = 2;  // so that unequal lengths even out
  const int run_count = static_cast<int>(runs.size());
  const int parts = base::pieces_of(kTasksPerThread * context.pool.size(), run_count);
  context.pool.run(run_count * parts, [&](int task, int worker) {
    const RowRun run = runs[static_cast<std::size_t>(task / parts)];
    DsaWorkspace::List& list = workspace.lists[static_cast<std::size_t>(task / parts)];
    std::int32_t last = 0;
    for (int r = run.first; r < run.first + run.count; ++r) last = std::max(last, rows.positions[r]);
    const int blocks = (last + kernels::kAttentionBlock) / kernels::kAttentionBlock;
    const int blocks_per_part = base::pieces_of(blocks, parts);
    const int begin = task % parts * blocks_per_part * kernels::kAttentionBlock;
    const int end = std::min(last + 1, begin + blocks_per_part * kernels::kAttentionBlock);
    if (begin >= end) return;
    for (std::int32_t t = begin; t < end; ++t) list.slots[t] = rows.table(run.first).slot(t);
    std::array<std::int32_t, kernels::kAttentionRows> counts;
    std::array<float*, kernels::kAttentionRows> scores;
    for (int i = 0; i < run.count; ++i) {
      counts[i] = std::clamp(rows.positions[run.first + i] + 1, begin, end) - begin;
      scores[i] = list.scores.data() + static_cast<std::size_t>(i) * workspace.score_stride + begin;
    }
    const auto row = static_cast<std::size_t>(run.first);
    const auto heads = static_cast<std::size_t>(config.heads);
    context.kernels.index_scores(
        {.queries = workspace.queries.data() + row * heads * static_cast<std::size_t>(config.dim),
         .weights = workspace.weights.data() + row * heads,
         .keys = kv.plane(plane),
         .format = cache_format(kv),
         .slots = list.slots.data() + begin,
         .counts = counts.data(),
         .rows = run.count,
         .heads = config.heads,
         .dim = config.dim,
         .scale = 1.0F / std::sqrt(static_cast<float>(config.dim)),
         .scratch = workspace.scratch[static_cast<std::size_t>(worker)].data(),
         .out = scores.data()});
  });
}

}  // namespace tagalong::nn
