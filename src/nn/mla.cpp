#include "nn/mla.h"

#include <algorithm>
#include <span>
#include <vector>

#include "nn/tile.h"

namespace tagalong::nn {

namespace {

std::size_t area(std::size_t a, int b) { return a * static_cast<std::size_t>(b); }

// One head's matrix times its slice of every row: x and y are [rows] with a stride. The next head's is what
// the thread reads next.
void multiply_head(const Context& context, std::span<const kernels::PackedMatrix> weights, int head,
                   const float* x, std::size_t x_stride, int rows, float* y, std::size_t y_stride) {
  const kernels::PackedMatrix& weight = weights[head];
  const kernels::PackedMatrix& next = weights[std::min(head + 1, static_cast<int>(weights.size()) - 1)];
  for (int tile = 0; tile < weight.tiles(); ++tile) {
    const std::byte* after = tile + 1 < weight.tiles() ? weight.tile(tile + 1) : next.tile(0);
    const StridedRows input{.x = x,
                            .stride = x_stride,
                            .quantized = nullptr,
                            .count = rows,
                            .ahead = {context.tuning.prefetch, after}};
    multiply_rows(context.kernels, weight, tile, input, y, y_stride);
  }
}

}  // namespace

MlaWorkspace::MlaWorkspace(const MlaConfig& c, int max_rows, int max_context, int worker_count)
    : q_resid(area(max_rows, c.q_lora)),
      q(area(max_rows, c.heads * (c.nope + c.rope))),
      kv(area(max_rows, c.kv_lora + c.rope)),
      q_latent(area(max_rows, c.heads * c.kv_lora)),
      q_rope(area(max_rows, c.heads * c.rope_width())),
      k_rope(area(max_rows, c.rope_width())),
      context(area(max_rows, c.heads * c.kv_lora)),
      heads(area(max_rows, c.heads * c.v)),
      scratch(max_rows, std::max({c.hidden, c.q_lora, c.heads * c.v})),
      attention(c.attention(), max_rows, max_context, worker_count) {}

void Mla::absorb(const tensor::WeightView& kv_b, const kernels::Packing& packing) {
  const int head_rows = config.nope + config.v;
  // A quantised weight times its fp32 factor is not a bf16 number; it keeps its value as F32.
  const auto format = kv_b.format == tensor::Format::kBF16 ? tensor::Format::kBF16 : tensor::Format::kF32;
  const kernels::Packing alone{.arena = packing.arena, .pool = nullptr};
  key_up.resize(static_cast<std::size_t>(config.heads));
  value_up.resize(static_cast<std::size_t>(config.heads));
  packing.run(config.heads, [&](int h, int) {
    std::vector<float> keys(area(config.kv_lora, config.nope));
    std::vector<float> values(area(config.v, config.kv_lora));
    std::vector<float> row(static_cast<std::size_t>(config.kv_lora));
    for (int n = 0; n < config.nope; ++n) {
      tensor::read_row(kv_b, h * head_rows + n, row);
      for (int c = 0; c < config.kv_lora; ++c) keys[area(c, config.nope) + n] = row[c];
    }
    for (int n = 0; n < config.v; ++n) {
      tensor::read_row(kv_b, h * head_rows + config.nope + n,
                       {values.data() + area(n, config.kv_lora), row.size()});
    }
    key_up[h] = {keys, config.kv_lora, config.nope, format, alone};
    value_up[h] = {values, config.v, config.kv_lora, format, alone};
  });
}

std::size_t Mla::bytes() const {
  std::size_t total = q_a.bytes() + q_b.bytes() + kv_a.bytes() + o.bytes();
  for (const auto& head : key_up) total += head.bytes();
  for (const auto& head : value_up) total += head.bytes();
  if (indexer) total += indexer->query.bytes() + indexer->key.bytes() + indexer->weights.bytes();
  return total;
}

std::size_t Mla::products() const {
  std::size_t total = q_a.products() + q_b.products() + kv_a.products() + o.products();
  total += area(area(config.heads, config.nope + config.v), config.kv_lora);
  if (indexer) total += indexer->query.products() + indexer->key.products() + indexer->weights.products();
  return total;
}

// Queries into the workspace, latent and rotated key into the cache.
void Mla::project(const Context& context, const AttentionRows& rows, const RopeAngles& angles, const float* x,
                  cache::KvStore& kv, const Planes& planes, MlaWorkspace& w) const {
  const int count = rows.count();
  const std::size_t kv_width = area(1, config.kv_lora) + area(1, config.rope);
  q_a.apply(context, x, count, w.q_resid.data(), w.scratch);
  kv_a.apply(context, x, count, w.kv.data(), w.scratch);
  context.pool.run(count, [&](int r, int) {
    float* resid = w.q_resid.data() + area(r, config.q_lora);
    context.kernels.rms_norm(resid, q_norm.data(), config.norm_eps, config.q_lora, resid);
    float* latent = w.kv.data() + static_cast<std::size_t>(r) * kv_width;
    float* key = w.k_rope.data() + area(r, config.rope_width());
    std::copy_n(latent + config.kv_lora, config.rope, key);
    context.kernels.rms_norm(latent, kv_norm.data(), config.norm_eps, config.kv_lora, latent);
    angles.rotate(r, config.style, key);
    kv.write(planes.latent, rows.slot(r), {latent, static_cast<std::size_t>(config.kv_lora)});
    kv.write(planes.rope, rows.slot(r), {key, static_cast<std::size_t>(config.rope_width())});
  });
  q_b.apply(context, w.q_resid.data(), count, w.q.data(), w.scratch);

  const int head = config.nope + config.rope;
  context.pool.run(config.heads, [&](int h, int) {
    multiply_head(context, key_up, h, w.q.data() + area(h, head), area(config.heads, head), count,
                  w.q_latent.data() + area(h, config.kv_lora), area(config.heads, config.kv_lora));
    for (int r = 0; r < count; ++r) {
      const float* from = w.q.data() + area(r, config.heads * head) + area(h, head) + config.nope;
      float* to = w.q_rope.data() + area(area(r, config.heads) + h, config.rope_width());
      std::copy_n(from, config.rope, to);
      angles.rotate(r, config.style, to);
    }
  });
}

void Mla::apply(const Context& context, const AttentionRows& rows, const RopeAngles& angles, const float* x,
                cache::KvStore& kv, const Planes& planes, MlaWorkspace& w, DsaWorkspace& dsa,
                SlotSelection& selection, float* out) const {
  const int count = rows.count();
  project(context, rows, angles, x, kv, planes, w);
  if (indexer) {
    indexer->select(context, rows, angles, x, w.q_resid.data(), kv, planes.index, dsa, w.scratch, selection);
  }
  attend(context, config.attention(),
         {.rows = rows,
          .kv = kv,
          .queries = {w.q_latent.data(), w.q_rope.data()},
          .key_planes = {planes.latent, planes.rope},
          .value_plane = planes.latent,
          .selection = sparsity == Sparsity::kDense ? nullptr : &selection,
          .out = w.context.data()},
         w.attention);
  context.pool.run(config.heads, [&](int h, int) {
    multiply_head(context, value_up, h, w.context.data() + area(h, config.kv_lora),
                  area(config.heads, config.kv_lora), count, w.heads.data() + area(h, config.v),
                  area(config.heads, config.v));
  });
  o.apply(context, w.heads.data(), count, out, w.scratch);
}

}  // namespace tagalong::nn
