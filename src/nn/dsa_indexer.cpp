#include "nn/dsa_indexer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

namespace tagalong::nn {

namespace {

// Of transformers' LayerNorm in the indexer; not in any config.
constexpr float kKeyNormEps = 1e-6F;

// Ranks scores as unsigned integers, NaN below every number.
std::uint32_t rank_of(float score) {
  if (std::isnan(score)) return 0;
  const auto bits = std::bit_cast<std::uint32_t>(score);
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

// Slots of the k best of `count` positions, in order of position.
void choose(const float* scores, int count, int k, DsaWorkspace::Worker& worker, std::int32_t* out) {
  for (int s = 0; s < count; ++s) {
    // Among equal scores the earlier position is the greater key.
    worker.order[s] =
        (std::uint64_t{rank_of(scores[s])} << 32) | (0xFFFFFFFFU - static_cast<std::uint32_t>(s));
  }
  const auto begin = worker.order.begin();
  std::nth_element(begin, begin + k, begin + count, std::greater<>());
  for (int i = 0; i < k; ++i) {
    out[i] = static_cast<std::int32_t>(0xFFFFFFFFU - static_cast<std::uint32_t>(worker.order[i]));
  }
  std::sort(out, out + k);
  for (int i = 0; i < k; ++i) out[i] = worker.slots[out[i]];
}

}  // namespace

DsaWorkspace::DsaWorkspace(const DsaConfig& config, int max_rows, int max_context, int worker_count)
    : queries(static_cast<std::size_t>(max_rows) * static_cast<std::size_t>(config.heads * config.dim)),
      keys(static_cast<std::size_t>(max_rows) * static_cast<std::size_t>(config.dim)),
      weights(static_cast<std::size_t>(max_rows) * static_cast<std::size_t>(config.heads)) {
  const auto positions = static_cast<std::size_t>(max_context);
  for (int w = 0; w < worker_count; ++w) {
    workers.push_back({std::vector<std::int32_t>(positions), std::vector<float>(positions),
                       std::vector<std::uint64_t>(positions)});
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

  context.pool.run(count, [&](int r, int w) {
    const int positions = rows.positions[r] + 1;
    if (positions <= config.top_k) return;
    DsaWorkspace::Worker& worker = workspace.workers[w];
    list_slots(rows.table(r), rows.positions[r], worker.slots.data());
    const auto row = static_cast<std::size_t>(r);
    context.kernels.index_scores(
        {.queries = workspace.queries.data() + row * query_width,
         .weights = workspace.weights.data() + row * static_cast<std::size_t>(config.heads),
         .keys = kv.plane(plane),
         .format = cache_format(kv),
         .slots = worker.slots.data(),
         .count = positions,
         .heads = config.heads,
         .dim = config.dim,
         .scale = 1.0F / std::sqrt(static_cast<float>(config.dim)),
         .out = worker.scores.data()});
    choose(worker.scores.data(), positions, config.top_k, worker, selection.row(r));
  });
}

}  // namespace tagalong::nn
