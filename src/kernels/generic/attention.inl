// Attention and indexer over the 16-lane Vec, for the same includers as kernels.inl and after it.
//
// Both are products with panels: 64 keys by 64 values of each, widened to float in scratch memory that stays
// in the first cache. Scores take a panel turned over, one key a lane; outputs take it as it is cached, one
// value a lane. All heads and rows of a call use a panel before the next is made.

inline constexpr int kPanel = kAttentionBlock;

// c[h][0..16 kVecs) += sum over k of a[h][k] * panel[k][..], k ascending.
template <int kHeads, int kVecs>
inline void multiply_add(const float* a, std::size_t a_stride, const float* panel, int depth, float* c,
                         std::size_t c_stride) {
  Vec sums[kHeads][kVecs];
  KERNEL_UNROLL
  for (int h = 0; h < kHeads; ++h) {
    KERNEL_UNROLL
    for (int v = 0; v < kVecs; ++v) sums[h][v] = load(c + h * c_stride + v * kLanes);
  }
  for (int k = 0; k < depth; ++k, panel += kPanel) {
    Vec b[kVecs];
    KERNEL_UNROLL
    for (int v = 0; v < kVecs; ++v) b[v] = load(panel + v * kLanes);
    KERNEL_UNROLL
    for (int h = 0; h < kHeads; ++h) {
      const Vec x = broadcast(a[h * a_stride + k]);
      KERNEL_UNROLL
      for (int v = 0; v < kVecs; ++v) sums[h][v] = fma(x, b[v], sums[h][v]);
    }
  }
  KERNEL_UNROLL
  for (int h = 0; h < kHeads; ++h) {
    KERNEL_UNROLL
    for (int v = 0; v < kVecs; ++v) store(c + h * c_stride + v * kLanes, sums[h][v]);
  }
}

template <int kHeads>
inline void multiply_columns(const float* a, std::size_t a_stride, const float* panel, int depth, int columns,
                             float* c, std::size_t c_stride) {
  int i = 0;
  for (; i + kPanelVecs * kLanes <= columns; i += kPanelVecs * kLanes) {
    multiply_add<kHeads, kPanelVecs>(a, a_stride, panel + i, depth, c + i, c_stride);
  }
  for (; i < columns; i += kLanes) multiply_add<kHeads, 1>(a, a_stride, panel + i, depth, c + i, c_stride);
}

// A number of heads, each a row of `a` and of `c`, times the first `columns` (a multiple of 16) of a panel.
inline void multiply_heads(const float* a, std::size_t a_stride, int heads, const float* panel, int depth,
                           int columns, float* c, std::size_t c_stride) {
  int h = 0;
  for (; h + 4 <= heads; h += 4) {
    multiply_columns<4>(a + h * a_stride, a_stride, panel, depth, columns, c + h * c_stride, c_stride);
  }
  for (; h + 2 <= heads; h += 2) {
    multiply_columns<2>(a + h * a_stride, a_stride, panel, depth, columns, c + h * c_stride, c_stride);
  }
  if (h < heads) {
    multiply_columns<1>(a + h * a_stride, a_stride, panel, depth, columns, c + h * c_stride, c_stride);
  }
}

inline int whole_vectors(int n) { return (n + kLanes - 1) / kLanes * kLanes; }

// Values first.. + width of the cached rows slots[0..keys) as panel[value][key]; keys up to a multiple of 16
// are zero. width is a multiple of 16.
template <CacheFormat kFormat>
inline void turn_panel(const std::byte* rows, std::size_t row_bytes, const std::int32_t* slots, int keys,
                       int first, int width, float* panel) {
  for (int t = 0; t < keys; t += kLanes) {
    for (int i = 0; i < width; i += kLanes) {
      Vec block[kLanes];
      for (int j = 0; j < kLanes; ++j) {
        block[j] =
            t + j < keys
                ? Cached<kFormat>::load_at(rows + static_cast<std::size_t>(slots[t + j]) * row_bytes +
                                           static_cast<std::size_t>(first + i) * Cached<kFormat>::kBytes)
                : broadcast(0.0F);
      }
      transpose(block);
      for (int j = 0; j < kLanes; ++j) store(panel + (i + j) * kPanel + t, block[j]);
    }
  }
}

// The same as panel[key][value].
template <CacheFormat kFormat>
inline void copy_panel(const std::byte* rows, std::size_t row_bytes, const std::int32_t* slots, int keys,
                       int first, int width, float* panel) {
  for (int t = 0; t < keys; ++t) {
    const std::byte* row = rows + static_cast<std::size_t>(slots[t]) * row_bytes +
                           static_cast<std::size_t>(first) * Cached<kFormat>::kBytes;
    for (int i = 0; i < width; i += kLanes)
      store(panel + t * kPanel + i, Cached<kFormat>::load_at(row + i * Cached<kFormat>::kBytes));
  }
}

// What a head remembers from block to block.
struct RunningSoftmax {
  float largest;
  float total;
  float shrink;  // factor of the output so far
};

// Scores of `keys` keys, unscaled, become exp(score * scale - largest), zeros up to a multiple of 16.
inline void soften(float* scores, int keys, float scale, RunningSoftmax& state) {
  const int padded = whole_vectors(keys);
  const float before = state.largest;
  Vec greatest = broadcast(-__builtin_inff());
  for (int t = 0; t < padded; t += kLanes) {
    store(scores + t, load(scores + t) * broadcast(scale));
    if (t + kLanes > keys) {
      for (int i = keys; i < padded; ++i) scores[i] = -__builtin_inff();
    }
    greatest = max(greatest, load(scores + t));
  }
  const float block = largest(greatest);
  state.largest = before > block ? before : block;
  float shrink[kLanes];
  store(shrink, exp_approx(broadcast(before - state.largest)));
  state.shrink = shrink[0];
  Vec sums = broadcast(0.0F);
  for (int t = 0; t < padded; t += kLanes) {
    store(scores + t, exp_approx(load(scores + t) - broadcast(state.largest)));
    if (t + kLanes > keys) {
      for (int i = keys; i < padded; ++i) scores[i] = 0.0F;
    }
    sums = sums + load(scores + t);
  }
  state.total = __builtin_fmaf(state.total, state.shrink, sum(sums));
}

inline int block_keys(int count, int first) {
  const int rest = count - first;
  return rest < kPanel ? rest : kPanel;
}

inline int largest_count(const std::int32_t* counts, int rows) {
  int most = counts[0];
  for (int r = 1; r < rows; ++r) most = counts[r] > most ? counts[r] : most;
  return most;
}

// scores[r][h][0..64) += queries[r][h][first..+ width) times the turned panel, for rows that reach `block`.
inline void score_panel(const float* queries, std::size_t row_stride, std::size_t head_stride, int rows,
                        int heads, const std::int32_t* counts, int block, const float* panel, int width,
                        float* scores) {
  for (int r = 0; r < rows; ++r) {
    if (counts[r] <= block) continue;
    multiply_heads(queries + r * row_stride, head_stride, heads, panel, width,
                   whole_vectors(block_keys(counts[r], block)),
                   scores + static_cast<std::size_t>(r) * heads * kPanel, kPanel);
  }
}

template <CacheFormat kFormat>
inline void latent_attention_of(const LatentAttention& a) {
  const auto latent = static_cast<std::size_t>(a.latent);
  const auto rope = static_cast<std::size_t>(a.rope);
  const std::size_t row_heads = static_cast<std::size_t>(a.row_heads);
  const std::size_t cells = static_cast<std::size_t>(a.rows) * static_cast<std::size_t>(a.heads);
  float* panel = a.scratch;
  float* scores = panel + kPanel * kPanel;                                    // [rows, heads, 64]
  auto* states = reinterpret_cast<RunningSoftmax*>(scores + cells * kPanel);  // [rows, heads]
  for (std::size_t i = 0; i < cells; ++i) states[i] = {-__builtin_inff(), 0.0F, 0.0F};
  for (int r = 0; r < a.rows; ++r) {
    float* out = a.out + r * row_heads * latent;
    for (std::size_t i = 0; i < static_cast<std::size_t>(a.heads) * latent; i += kLanes)
      store(out + i, broadcast(0.0F));
  }

  const int count = largest_count(a.counts, a.rows);
  for (int block = 0; block < count; block += kPanel) {
    const std::int32_t* slots = a.slots + block;
    const int keys = block_keys(count, block);
    for (std::size_t i = 0; i < cells * kPanel; i += kLanes) store(scores + i, broadcast(0.0F));
    for (int i = 0; i < a.latent; i += kPanel) {
      const int width = block_keys(a.latent, i);
      turn_panel<kFormat>(a.latents, latent * Cached<kFormat>::kBytes, slots, keys, i, width, panel);
      score_panel(a.q_latent + i, row_heads * latent, latent, a.rows, a.heads, a.counts, block, panel, width,
                  scores);
    }
    for (int i = 0; i < a.rope; i += kPanel) {
      const int width = block_keys(a.rope, i);
      turn_panel<kFormat>(a.ropes, rope * Cached<kFormat>::kBytes, slots, keys, i, width, panel);
      score_panel(a.q_rope + i, row_heads * rope, rope, a.rows, a.heads, a.counts, block, panel, width,
                  scores);
    }
    for (std::size_t i = 0; i < cells; ++i) {
      const int r = static_cast<int>(i) / a.heads;
      if (a.counts[r] > block)
        soften(scores + i * kPanel, block_keys(a.counts[r], block), a.scale, states[i]);
    }
    for (int i = 0; i < a.latent; i += kPanel) {
      const int width = block_keys(a.latent, i);
      copy_panel<kFormat>(a.latents, latent * Cached<kFormat>::kBytes, slots, keys, i, width, panel);
      for (int r = 0; r < a.rows; ++r) {
        if (a.counts[r] <= block) continue;
        float* out = a.out + r * row_heads * latent + static_cast<std::size_t>(i);
        const std::size_t cell = static_cast<std::size_t>(r) * static_cast<std::size_t>(a.heads);
        for (int h = 0; h < a.heads; ++h) {
          const Vec shrink = broadcast(states[cell + h].shrink);
          float* head = out + h * latent;
          for (int j = 0; j < width; j += kLanes) store(head + j, load(head + j) * shrink);
        }
        multiply_heads(scores + cell * kPanel, kPanel, a.heads, panel, block_keys(a.counts[r], block), width,
                       out, latent);
      }
    }
  }

  for (std::size_t i = 0; i < cells; ++i) {
    const std::size_t r = i / static_cast<std::size_t>(a.heads);
    float* head = a.out + (r * row_heads + i % static_cast<std::size_t>(a.heads)) * latent;
    const Vec total = broadcast(states[i].total);
    for (std::size_t j = 0; j < latent; j += kLanes) store(head + j, load(head + j) / total);
  }
}

template <CacheFormat kFormat>
inline void index_scores_of(const IndexScores& a) {
  const auto dim = static_cast<std::size_t>(a.dim);
  const auto heads = static_cast<std::size_t>(a.heads);
  const std::size_t cells = static_cast<std::size_t>(a.rows) * heads;
  float* panel = a.scratch;
  float* dots = panel + kPanel * kPanel;  // [rows, heads, 64]
  const int count = largest_count(a.counts, a.rows);
  for (int block = 0; block < count; block += kPanel) {
    const int keys = block_keys(count, block);
    for (std::size_t i = 0; i < cells * kPanel; i += kLanes) store(dots + i, broadcast(0.0F));
    for (int i = 0; i < a.dim; i += kPanel) {
      const int width = block_keys(a.dim, i);
      turn_panel<kFormat>(a.keys, dim * Cached<kFormat>::kBytes, a.slots + block, keys, i, width, panel);
      score_panel(a.queries + i, heads * dim, dim, a.rows, a.heads, a.counts, block, panel, width, dots);
    }
    for (int r = 0; r < a.rows; ++r) {
      const float* weights = a.weights + static_cast<std::size_t>(r) * heads;
      const float* of_row = dots + static_cast<std::size_t>(r) * heads * kPanel;
      for (int t = 0; t < block_keys(a.counts[r], block); t += kLanes) {
        Vec score = broadcast(0.0F);
        for (std::size_t h = 0; h < heads; ++h) {
          const Vec dot = load(of_row + h * kPanel + t) * broadcast(a.scale);
          score = fma(broadcast(weights[h]), max(broadcast(0.0F), dot), score);
        }
        store(a.out[r] + block + t, score);
      }
    }
  }
}

void latent_attention(const LatentAttention& a) {
  switch (a.format) {
    case CacheFormat::kF32:
      return latent_attention_of<CacheFormat::kF32>(a);
    case CacheFormat::kBF16:
      return latent_attention_of<CacheFormat::kBF16>(a);
    case CacheFormat::kF8:
      return latent_attention_of<CacheFormat::kF8>(a);
  }
}

void index_scores(const IndexScores& a) {
  switch (a.format) {
    case CacheFormat::kF32:
      return index_scores_of<CacheFormat::kF32>(a);
    case CacheFormat::kBF16:
      return index_scores_of<CacheFormat::kBF16>(a);
    case CacheFormat::kF8:
      return index_scores_of<CacheFormat::kF8>(a);
  }
}
