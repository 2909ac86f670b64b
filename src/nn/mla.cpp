#include "nn/mla.h"

#include <algorithm>
#include <array>

#include "nn/tile.h"

namespace tagalong::nn {

namespace {

// Heads of an attention task: all of them if the rows alone keep the threads busy, otherwise fewer, a
// multiple of what the kernel takes at once. The cached rows are read once a task; no result depends on it.
int heads_per_task(int heads, int runs, int threads) {
  constexpr int kLeast = 8;
  const int tasks = 2 * threads;  // two each, so that unequal lengths even out
  const int parts = std::clamp(tasks / std::max(runs, 1), 1, (heads + kLeast - 1) / kLeast);
  return ((heads + parts - 1) / parts + 3) / 4 * 4;
}

std::size_t area(std::size_t a, int b) { return a * static_cast<std::size_t>(b); }

// One head's matrix times its slice of every row: x and y are [rows] with a stride.
void multiply_head(const Context& context, const kernels::PackedMatrix& weight, const float* x,
                   std::size_t x_stride, int rows, float* y, std::size_t y_stride) {
  const StridedRows input{.x = x, .stride = x_stride, .quantized = nullptr, .count = rows};
  for (int tile = 0; tile < weight.tiles(); ++tile) {
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
      runs(static_cast<std::size_t>(max_rows)) {
  for (int w = 0; w < worker_count; ++w) {
    workers.push_back({std::vector<std::int32_t>(static_cast<std::size_t>(max_context)),
                       base::AlignedBuffer<float>(kernels::attention_scratch(c.heads))});
  }
}

void Mla::absorb(const tensor::WeightView& kv_b) {
  const int head_rows = config.nope + config.v;
  // A quantised weight times its fp32 factor is not a bf16 number; it keeps its value as F32.
  const auto format = kv_b.format == tensor::Format::kBF16 ? tensor::Format::kBF16 : tensor::Format::kF32;
  for (int h = 0; h < config.heads; ++h) {
    std::vector<float> keys(area(config.kv_lora, config.nope));
    std::vector<float> values(area(config.v, config.kv_lora));
    for (int c = 0; c < config.kv_lora; ++c) {
      for (int n = 0; n < config.nope; ++n) {
        keys[area(c, config.nope) + n] = tensor::weight_at(kv_b, h * head_rows + n, c);
      }
      for (int n = 0; n < config.v; ++n) {
        values[area(n, config.kv_lora) + c] = tensor::weight_at(kv_b, h * head_rows + config.nope + n, c);
      }
    }
    key_up.emplace_back(keys, config.kv_lora, config.nope, format);
    value_up.emplace_back(values, config.v, config.kv_lora, format);
  }
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
    multiply_head(context, key_up[h], w.q.data() + area(h, head), area(config.heads, head), count,
                  w.q_latent.data() + area(h, config.kv_lora), area(config.heads, config.kv_lora));
    for (int r = 0; r < count; ++r) {
      const float* from = w.q.data() + area(r, config.heads * head) + area(h, head) + config.nope;
      float* to = w.q_rope.data() + area(area(r, config.heads) + h, config.rope_width());
      std::copy_n(from, config.rope, to);
      angles.rotate(r, config.style, to);
    }
  });
}

void Mla::attend(const Context& context, const AttentionRows& rows, const cache::KvStore& kv,
                 const Planes& planes, const SlotSelection& selection, MlaWorkspace& w) const {
  // A row that selects its own positions shares them with no other.
  const auto selects = [&](int r) {
    return sparsity != Sparsity::kDense && rows.positions[r] + 1 > selection.top_k();
  };
  const int runs = list_runs(
      rows, [](int) { return true; }, selects, w.runs.data());
  const int heads = heads_per_task(config.heads, runs, context.pool.size());
  const int parts = (config.heads + heads - 1) / heads;
  context.pool.run(runs * parts, [&](int task, int worker) {
    const RowRun run = w.runs[task / parts];
    const int first_head = task % parts * heads;
    MlaWorkspace::Worker& scratch = w.workers[worker];
    const std::int32_t* slots = scratch.slots.data();
    std::array<std::int32_t, kernels::kAttentionRows> counts;
    if (selects(run.first)) {
      counts[0] = selection.top_k();
      slots = selection.row(run.first);
    } else {
      std::int32_t last = 0;
      for (int i = 0; i < run.count; ++i) {
        counts[i] = rows.positions[run.first + i] + 1;
        last = std::max(last, rows.positions[run.first + i]);
      }
      list_slots(rows.table(run.first), last, scratch.slots.data());
    }
    const std::size_t query = area(run.first, config.heads) + first_head;
    context.kernels.latent_attention({.q_latent = w.q_latent.data() + query * config.kv_lora,
                                      .q_rope = w.q_rope.data() + query * config.rope_width(),
                                      .latents = kv.plane(planes.latent),
                                      .ropes = kv.plane(planes.rope),
                                      .format = cache_format(kv),
                                      .slots = slots,
                                      .counts = counts.data(),
                                      .rows = run.count,
                                      .row_heads = config.heads,
                                      .heads = std::min(heads, config.heads - first_head),
                                      .latent = config.kv_lora,
                                      .rope = config.rope_width(),
                                      .scale = config.scale,
                                      .scratch = scratch.scratch.data(),
                                      .out = w.context.data() + query * config.kv_lora});
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
  attend(context, rows, kv, planes, selection, w);
  context.pool.run(config.heads, [&](int h, int) {
    multiply_head(context, value_up[h], w.context.data() + area(h, config.kv_lora),
                  area(config.heads, config.kv_lora), count, w.heads.data() + area(h, config.v),
                  area(config.heads, config.v));
  });
  o.apply(context, w.heads.data(), count, out, w.scratch);
}

}  // namespace tagalong::nn
