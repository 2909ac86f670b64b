#include "kernels/scalar/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kernels/scalar/cached.h"
#include "kernels/scalar/math.h"

namespace tagalong::kernels::scalar {

namespace {

// `sum` plus query[0..n) times the cached row `slot`, from the first product to the last.
float add_dot(float sum, const float* query, const std::byte* rows, std::int32_t slot, int n,
              CacheFormat format) {
  for (int i = 0; i < n; ++i) {
    sum = std::fma(query[i], cached_value(rows, static_cast<std::size_t>(slot) * n + i, format), sum);
  }
  return sum;
}

// One head of row r, both as offsets of heads into queries and output.
void attend_head(const LatentAttention& a, int r, int h) {
  const std::size_t head = static_cast<std::size_t>(r) * a.row_heads + h;
  const float* q_latent = a.q_latent + head * a.latent;
  const float* q_rope = a.q_rope + head * a.rope;
  float* out = a.out + head * a.latent;
  std::fill_n(out, a.latent, 0.0F);
  float largest = -std::numeric_limits<float>::infinity();
  float total = 0;
  for (int first = 0; first < a.counts[r]; first += kAttentionBlock) {
    const std::int32_t* slots = a.slots + first;
    const int keys = std::min(kAttentionBlock, a.counts[r] - first);
    std::array<float, kAttentionBlock> p;
    p.fill(-std::numeric_limits<float>::infinity());
    for (int t = 0; t < keys; ++t) {
      const float latent = add_dot(0, q_latent, a.latents, slots[t], a.latent, a.format);
      p[t] = add_dot(latent, q_rope, a.ropes, slots[t], a.rope, a.format) * a.scale;
    }
    Lanes greatest;
    greatest.v.fill(-std::numeric_limits<float>::infinity());
    for (int t = 0; t < kAttentionBlock; ++t) {
      greatest.v[t % kLanes] = max_of(greatest.v[t % kLanes], p[t]);
    }
    const float before = largest;
    largest = max_of(largest, greatest.largest());
    const float shrink = exp_approx(before - largest);
    Lanes sums;
    for (int t = 0; t < keys; ++t) {
      p[t] = exp_approx(p[t] - largest);
      sums.v[t % kLanes] += p[t];
    }
    total = std::fma(total, shrink, sums.sum());
    for (int i = 0; i < a.latent; ++i) {
      float sum = out[i] * shrink;
      for (int t = 0; t < keys; ++t) {
        sum = std::fma(
            p[t], cached_value(a.latents, static_cast<std::size_t>(slots[t]) * a.latent + i, a.format), sum);
      }
      out[i] = sum;
    }
  }
  for (int i = 0; i < a.latent; ++i) out[i] /= total;
}

}  // namespace

void latent_attention(const LatentAttention& a) {
  for (int r = 0; r < a.rows; ++r) {
    for (int h = 0; h < a.heads; ++h) attend_head(a, r, h);
  }
}

void index_scores(const IndexScores& a) {
  for (int r = 0; r < a.rows; ++r) {
    for (int t = 0; t < a.counts[r]; ++t) {
      float score = 0;
      for (int h = 0; h < a.heads; ++h) {
        const std::size_t head = static_cast<std::size_t>(r) * a.heads + h;
        const float dot = add_dot(0, a.queries + head * a.dim, a.keys, a.slots[t], a.dim, a.format);
        score = std::fma(a.weights[head], max_of(0.0F, dot * a.scale), score);
      }
      a.out[r][t] = score;
    }
  }
}

}  // namespace tagalong::kernels::scalar
