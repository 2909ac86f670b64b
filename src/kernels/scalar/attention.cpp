// Attention and the indexer's scores as their definitions read: the oracle of generic/attention.inl.
#include "kernels/scalar/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kernels/attention.h"
#include "kernels/scalar/cached.h"
#include "kernels/scalar/math.h"

namespace tagalong::kernels::scalar {

namespace {

// `sum` plus query[0..n) times the n cached values from `first` on, from the first product to the last.
float add_dot(float sum, const float* query, const std::byte* data, std::size_t first, int n,
              CacheFormat format) {
  for (int i = 0; i < n; ++i) sum = std::fma(query[i], cached_value(data, first + i, format), sum);
  return sum;
}

// One head of row r.
void attend_head(const AttentionPart& a, int r, int h) {
  const int count = a.counts[r];
  std::array<float, kAttentionPart> p;
  p.fill(-std::numeric_limits<float>::infinity());
  for (int t = 0; t < count; ++t) {
    float dot = 0;
    for (const AttentionKeys& keys : a.keys) {
      if (keys.width == 0) continue;
      const std::byte* key = keys.data + static_cast<std::size_t>(a.slots[t]) * keys.stride;
      dot = add_dot(dot, keys.queries[r] + h * keys.width, key, 0, keys.width, a.format);
    }
    p[t] = dot * a.scale;
  }
  Lanes greatest;
  greatest.v.fill(-std::numeric_limits<float>::infinity());
  for (int t = 0; t < (count + kLanes - 1) / kLanes * kLanes; ++t) {
    greatest.v[t % kLanes] = max_of(greatest.v[t % kLanes], p[t]);
  }
  const float largest = greatest.largest();
  float* out = a.sums[r].out + h * a.dim;
  std::fill_n(out, a.dim, 0.0F);
  Lanes total;
  for (int t = 0; t < count; ++t) {
    p[t] = exp_approx(p[t] - largest);
    total.v[t % kLanes] += p[t];
    const std::byte* value = a.values + static_cast<std::size_t>(a.slots[t]) * a.stride;
    for (int i = 0; i < a.dim; ++i) {
      out[i] = std::fma(p[t], cached_value(value, static_cast<std::size_t>(i), a.format), out[i]);
    }
  }
  a.sums[r].largest[h] = largest;
  a.sums[r].sum[h] = total.sum();
}

}  // namespace

void attention_part(const AttentionPart& a) {
  for (int r = 0; r < a.rows; ++r) {
    for (int h = 0; h < a.heads; ++h) attend_head(a, r, h);
  }
}

void fold_attention(const AttentionFold& f) {
  for (int h = 0; h < f.heads; ++h) {
    const float largest = max_of(f.total.largest[h], f.part.largest[h]);
    const float old_factor = exp_approx(f.total.largest[h] - largest);
    const float new_factor = exp_approx(f.part.largest[h] - largest);
    f.total.largest[h] = largest;
    f.total.sum[h] = std::fma(f.total.sum[h], old_factor, f.part.sum[h] * new_factor);
    for (int i = h * f.dim; i < (h + 1) * f.dim; ++i) {
      f.total.out[i] = std::fma(f.total.out[i], old_factor, f.part.out[i] * new_factor);
    }
  }
}

void finish_attention(const AttentionSums& sums, int heads, int dim) {
  for (int i = 0; i < heads * dim; ++i) sums.out[i] /= sums.sum[i / dim];
}

void index_scores(const IndexScores& a) {
  for (int r = 0; r < a.rows; ++r) {
    for (int t = 0; t < a.counts[r]; ++t) {
      float score = 0;
      for (int h = 0; h < a.heads; ++h) {
        const std::size_t head = static_cast<std::size_t>(r) * a.heads + h;
        const std::size_t key = static_cast<std::size_t>(a.slots[t]) * a.dim;
        const float dot = add_dot(0, a.queries + head * a.dim, a.keys, key, a.dim, a.format);
        score = std::fma(a.weights[head], max_of(0.0F, dot * a.scale), score);
      }
      a.out[r][t] = score;
    }
  }
}

}  // namespace tagalong::kernels::scalar
