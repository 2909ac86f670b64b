#include "nn/gqa.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace tagalong::nn {

using kernels::AttentionSums;
using kernels::kAttentionPart;
using kernels::kAttentionRows;

namespace {

std::size_t area(std::size_t a, int b) { return a * static_cast<std::size_t>(b); }

int parts_of(int positions) { return (positions + kAttentionPart - 1) / kAttentionPart; }

// The sums at `at`: largest and sum of each head of a group, then out.
AttentionSums sums_at(float* at, const GqaConfig& c) {
  return {.largest = at, .sum = at + c.group(), .out = at + 2 * c.group()};
}

// What the tasks of one call of attend() share.
struct Attention {
  const Context& context;
  const AttentionRows& rows;
  const cache::KvStore& kv;
  const Gqa::Planes& planes;
  const GqaConfig& config;
  GqaWorkspace& workspace;

  int positions(const RowRun& run) const {
    int most = 0;
    for (int m = 0; m < run.count; ++m) most = std::max(most, rows.positions[run.first + m] + 1);
    return most;
  }

  // One part of a key/value head for those rows of the run that see it; the m-th row's sums go to
  // to + m * sums_width.
  void compute(const RowRun& run, int head, int part, GqaWorkspace::Worker& worker, float* to) const {
    const int begin = part * kAttentionPart;
    const std::size_t bytes = cache::kv_bytes(kv.type());
    kernels::GroupedAttention call;
    call.rows = 0;
    int longest = 0;
    for (int m = 0; m < run.count; ++m) {
      const int row = run.first + m;
      const int count = std::min(rows.positions[row] + 1 - begin, kAttentionPart);
      if (count <= 0) continue;
      call.queries[call.rows] =
          workspace.q.data() + area(row, config.q_width()) + area(head * config.group(), config.head_dim);
      call.counts[call.rows] = count;
      call.sums[call.rows] = sums_at(to + area(m, workspace.sums_width), config);
      ++call.rows;
      longest = std::max(longest, count);
    }
    for (int t = 0; t < longest; ++t) worker.slots[t] = rows.table(run.first).slot(begin + t);
    const std::size_t column = area(head, config.head_dim) * bytes;
    call.heads = config.group();
    call.dim = config.head_dim;
    call.keys = kv.plane(planes.key) + column;
    call.values = kv.plane(planes.value) + column;
    call.stride = static_cast<std::size_t>(config.kv_width()) * bytes;
    call.format = cache_format(kv);
    call.slots = worker.slots.data();
    call.scale = config.scale;
    call.scratch = worker.scratch.data();
    context.kernels.grouped_attention(call);
  }

  void fold(float* total, float* part) const {
    context.kernels.fold_attention({.total = sums_at(total, config),
                                    .part = sums_at(part, config),
                                    .heads = config.group(),
                                    .dim = config.head_dim});
  }

  // Divides by the sum of the weights.
  void finish(int row, int head, float* total) const {
    const AttentionSums sums = sums_at(total, config);
    float* out =
        workspace.out.data() + area(row, config.q_width()) + area(head * config.group(), config.head_dim);
    for (int h = 0; h < config.group(); ++h) {
      for (int i = 0; i < config.head_dim; ++i, ++out) *out = sums.out[h * config.head_dim + i] / sums.sum[h];
    }
  }

  // All parts of a head for the rows of a run.
  void whole(const RowRun& run, int head, GqaWorkspace::Worker& worker) const {
    const int parts = parts_of(positions(run));
    const int width = workspace.sums_width;
    compute(run, head, 0, worker, worker.total.data());
    for (int part = 1; part < parts; ++part) {
      compute(run, head, part, worker, worker.part.data());
      for (int m = 0; m < run.count; ++m) {
        if (rows.positions[run.first + m] < part * kAttentionPart) continue;
        fold(worker.total.data() + area(m, width), worker.part.data() + area(m, width));
      }
    }
    for (int m = 0; m < run.count; ++m) finish(run.first + m, head, worker.total.data() + area(m, width));
  }
};

}  // namespace

GqaWorkspace::GqaWorkspace(const GqaConfig& c, int max_rows, int max_context, int worker_count)
    : q(area(max_rows, c.q_width())),
      k(area(max_rows, c.kv_width())),
      v(area(max_rows, c.kv_width())),
      out(area(max_rows, c.q_width())),
      scratch(max_rows, std::max(c.hidden, c.q_width())),
      runs(static_cast<std::size_t>(max_rows)),
      parts(area(area(worker_count, parts_of(max_context)), c.group() * (c.head_dim + 2))),
      sums_width(c.group() * (c.head_dim + 2)) {
  for (int w = 0; w < worker_count; ++w) {
    workers.push_back({.slots = std::vector<std::int32_t>(kAttentionPart),
                       .scratch = std::vector<float>(kernels::grouped_attention_scratch(c.group())),
                       .part = std::vector<float>(area(kAttentionRows, sums_width)),
                       .total = std::vector<float>(area(kAttentionRows, sums_width))});
  }
}

// Queries into the workspace, keys and values into the cache.
void Gqa::project(const Context& context, const AttentionRows& rows, const RopeAngles& angles, const float* x,
                  cache::KvStore& kv, const Planes& planes, GqaWorkspace& w) const {
  const std::array products{Linear::Product{q, w.q.data()}, Linear::Product{k, w.k.data()},
                            Linear::Product{v, w.v.data()}};
  Linear::apply_together(context, products, x, rows.count(), w.scratch);
  context.pool.run(rows.count(), [&](int r, int) {
    const auto place = [&](float* heads, int count, const std::vector<float>& norm) {
      for (int h = 0; h < count; ++h, heads += config.head_dim) {
        if (!norm.empty()) {
          context.kernels.rms_norm(heads, norm.data(), config.norm_eps, config.head_dim, heads);
        }
        angles.rotate(r, config.style, heads);
      }
    };
    const auto width = static_cast<std::size_t>(config.kv_width());
    place(w.q.data() + area(r, config.q_width()), config.heads, q_norm);
    place(w.k.data() + area(r, config.kv_width()), config.kv_heads, k_norm);
    kv.write(planes.key, rows.slot(r), {w.k.data() + area(r, config.kv_width()), width});
    kv.write(planes.value, rows.slot(r), {w.v.data() + area(r, config.kv_width()), width});
  });
}

void Gqa::attend(const Context& context, const AttentionRows& rows, const cache::KvStore& kv,
                 const Planes& planes, GqaWorkspace& w) const {
  const int runs = list_runs(
      rows, [](int) { return true; }, [](int) { return false; }, w.runs.data());
  const Attention attention{context, rows, kv, planes, config, w};
  const int tasks = runs * config.kv_heads;
  int most_parts = 0;
  int most_rows = 0;
  for (const RowRun& run : std::span(w.runs).first(static_cast<std::size_t>(runs))) {
    most_parts = std::max(most_parts, parts_of(attention.positions(run)));
    most_rows = std::max(most_rows, run.count);
  }
  // Few long rows: each part is a task, or most workers would have nothing to do.
  if (tasks < context.pool.size() && most_parts > 1 && most_rows == 1) {
    const auto place = [&](int task, int part) {
      return w.parts.data() + area(area(task, most_parts) + static_cast<std::size_t>(part), w.sums_width);
    };
    context.pool.run(tasks * most_parts, [&](int task, int worker) {
      const int part = task % most_parts;
      const RowRun& run = w.runs[task / most_parts % runs];
      if (part >= parts_of(attention.positions(run))) return;
      attention.compute(run, task / most_parts / runs, part, w.workers[worker],
                        place(task / most_parts, part));
    });
    context.pool.run(tasks, [&](int task, int) {
      const RowRun& run = w.runs[task % runs];
      for (int part = 1; part < parts_of(attention.positions(run)); ++part) {
        attention.fold(place(task, 0), place(task, part));
      }
      attention.finish(run.first, task / runs, place(task, 0));
    });
    return;
  }
  context.pool.run(tasks, [&](int task, int worker) {
    attention.whole(w.runs[task % runs], task / runs, w.workers[worker]);
  });
}

void Gqa::apply(const Context& context, const AttentionRows& rows, const RopeAngles& angles, const float* x,
                cache::KvStore& kv, const Planes& planes, GqaWorkspace& w, float* out) const {
  CHECK(config.heads % config.kv_heads == 0, "{} heads, {} of keys", config.heads, config.kv_heads);
  project(context, rows, angles, x, kv, planes, w);
  attend(context, rows, kv, planes, w);
  o.apply(context, w.out.data(), rows.count(), out, w.scratch);
}

}  // namespace tagalong::nn
