#include "nn/gqa.h"

#include <algorithm>
#include <array>

namespace tagalong::nn {

namespace {

std::size_t area(std::size_t a, int b) { return a * static_cast<std::size_t>(b); }

}  // namespace

GqaWorkspace::GqaWorkspace(const GqaConfig& c, int max_rows, int max_context, int worker_count)
    : q(area(max_rows, c.q_width())),
      k(area(max_rows, c.kv_width())),
      v(area(max_rows, c.kv_width())),
      out(area(max_rows, c.q_width())),
      scratch(max_rows, std::max(c.hidden, c.q_width())),
      attention(c.attention(), max_rows, max_context, worker_count) {}

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
    place(w.q.data() + area(r, config.q_width()), config.heads, q_norm);
    place(w.k.data() + area(r, config.kv_width()), config.kv_heads, k_norm);
    const auto keep = [&](int plane, const float* heads) {
      for (int h = 0; h < config.kv_heads; ++h) {
        kv.write(plane + h, rows.slot(r),
                 {heads + area(h, config.head_dim), static_cast<std::size_t>(config.head_dim)});
      }
    };
    keep(planes.key, w.k.data() + area(r, config.kv_width()));
    keep(planes.value, w.v.data() + area(r, config.kv_width()));
  });
}

void Gqa::apply(const Context& context, const AttentionRows& rows, const RopeAngles& angles, const float* x,
                cache::KvStore& kv, const Planes& planes, GqaWorkspace& w, float* out) const {
  project(context, rows, angles, x, kv, planes, w);
  attend(context, config.attention(),
         {.rows = rows,
          .kv = kv,
          .queries = {w.q.data()},
          .key_planes = {planes.key},
          .value_plane = planes.value,
          .out = w.out.data()},
         w.attention);
  o.apply(context, w.out.data(), rows.count(), out, w.scratch);
}

}  // namespace tagalong::nn
