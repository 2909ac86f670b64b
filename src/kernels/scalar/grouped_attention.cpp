// Grouped-query attention as its definition reads: the oracle of generic/grouped_attention.inl.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/grouped_attention.h"
#include "kernels/scalar/attention.h"
#include "kernels/scalar/cached.h"
#include "kernels/scalar/math.h"

namespace tagalong::kernels::scalar {

void grouped_attention(const GroupedAttention& a) {
  const auto row_of = [&](const std::byte* plane, int t) {
    return plane + static_cast<std::size_t>(a.slots[t]) * a.stride;
  };
  for (int r = 0; r < a.rows; ++r) {
    for (int h = 0; h < a.heads; ++h) {
      const float* query = a.queries[r] + h * a.dim;
      float* scores = a.scratch;
      float largest = -std::numeric_limits<float>::infinity();
      for (int t = 0; t < a.counts[r]; ++t) {
        float dot = 0;
        for (int i = 0; i < a.dim; ++i) {
          dot =
              std::fma(query[i], cached_value(row_of(a.keys, t), static_cast<std::size_t>(i), a.format), dot);
        }
        scores[t] = dot * a.scale;
        largest = max_of(largest, scores[t]);
      }
      float* out = a.sums[r].out + h * a.dim;
      std::fill_n(out, a.dim, 0.0F);
      Lanes total;
      for (int t = 0; t < a.counts[r]; ++t) {
        const float p = exp_approx(scores[t] - largest);
        total.v[t % kLanes] += p;
        for (int i = 0; i < a.dim; ++i)
          out[i] =
              std::fma(p, cached_value(row_of(a.values, t), static_cast<std::size_t>(i), a.format), out[i]);
      }
      a.sums[r].largest[h] = largest;
      a.sums[r].sum[h] = total.sum();
    }
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

}  // namespace tagalong::kernels::scalar
