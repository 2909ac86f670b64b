// Grouped-query attention over the panels of attention.inl, after which it is included.
// scalar/grouped_attention.cpp says what it computes.

template <CacheFormat kFormat>
inline void grouped_attention_of(const GroupedAttention& a) {
  const auto dim = static_cast<std::size_t>(a.dim);
  const std::size_t row_scores = static_cast<std::size_t>(a.heads) * kAttentionPart;
  const int count = largest_count(a.counts, a.rows);
  float* panel = a.scratch;
  float* scores = panel + kPanel * kPanel;  // [rows, heads, kAttentionPart]
  for (std::size_t i = 0; i < static_cast<std::size_t>(a.rows) * row_scores; i += kLanes) {
    store(scores + i, broadcast(0.0F));
  }
  for (int block = 0; block < count; block += kPanel) {
    const int keys = block_keys(count, block);
    for (int i = 0; i < a.dim; i += kPanel) {
      const int width = block_keys(a.dim, i);
      turn_panel<kFormat>(a.keys, a.stride, a.slots + block, keys, i, width, panel);
      for (int r = 0; r < a.rows; ++r) {
        if (a.counts[r] <= block) continue;
        multiply_heads(a.queries[r] + i, dim, a.heads, panel, width,
                       whole_vectors(block_keys(a.counts[r], block)), scores + r * row_scores + block,
                       kAttentionPart);
      }
    }
  }
  for (int r = 0; r < a.rows; ++r) {
    for (int h = 0; h < a.heads; ++h) {
      RunningSoftmax state{-__builtin_inff(), 0.0F, 0.0F};
      soften(scores + r * row_scores + h * kAttentionPart, a.counts[r], a.scale, state);
      a.sums[r].largest[h] = state.largest;
      a.sums[r].sum[h] = state.total;
    }
    for (std::size_t i = 0; i < static_cast<std::size_t>(a.heads) * dim; i += kLanes) {
      store(a.sums[r].out + i, broadcast(0.0F));
    }
  }
  for (int block = 0; block < count; block += kPanel) {
    for (int i = 0; i < a.dim; i += kPanel) {
      const int width = block_keys(a.dim, i);
      copy_panel<kFormat>(a.values, a.stride, a.slots + block, block_keys(count, block), i, width, panel);
      for (int r = 0; r < a.rows; ++r) {
        if (a.counts[r] <= block) continue;
        multiply_heads(scores + r * row_scores + block, kAttentionPart, a.heads, panel,
                       block_keys(a.counts[r], block), width, a.sums[r].out + i, dim);
      }
    }
  }
}

void grouped_attention(const GroupedAttention& a) {
  switch (a.format) {
    case CacheFormat::kF32:
      return grouped_attention_of<CacheFormat::kF32>(a);
    case CacheFormat::kBF16:
      return grouped_attention_of<CacheFormat::kBF16>(a);
    case CacheFormat::kF8:
      return grouped_attention_of<CacheFormat::kF8>(a);
  }
}

inline float first_lane(Vec a) {
  float lanes[kLanes];
  store(lanes, a);
  return lanes[0];
}

void fold_attention(const AttentionFold& f) {
  for (int h = 0; h < f.heads; ++h) {
    const float before = f.total.largest[h];
    const float added = f.part.largest[h];
    const float most = before > added ? before : added;
    const Vec old_factor = exp_approx(broadcast(before - most));
    const Vec new_factor = exp_approx(broadcast(added - most));
    f.total.largest[h] = most;
    f.total.sum[h] =
        __builtin_fmaf(f.total.sum[h], first_lane(old_factor), f.part.sum[h] * first_lane(new_factor));
    for (int i = h * f.dim; i < (h + 1) * f.dim; i += kLanes) {
      store(f.total.out + i, fma(load(f.total.out + i), old_factor, load(f.part.out + i) * new_factor));
    }
  }
}
