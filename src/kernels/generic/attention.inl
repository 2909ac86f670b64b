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

// Reads a word of each line of cached rows, all at once: the work on them would wait for one sixteen after
// another, and asking (prefetch) does not make it wait less.
inline void touch_rows(const std::byte* rows, std::size_t row_bytes, const std::int32_t* slots, int keys,
                       std::size_t bytes) {
  for (int t = 0; t < keys; ++t) {
    const std::byte* row = rows + static_cast<std::size_t>(slots[t]) * row_bytes;
    for (std::size_t at = 0; at < bytes; at += 64) {
      std::int32_t word;
      __builtin_memcpy(&word, row + at, sizeof(word));
      __asm__ volatile("" : : "r"(word));
    }
  }
}

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
// A row's heads follow each other: head_stride from one to the next.
inline void score_panel(const float* const* queries, int first, std::size_t head_stride, int rows, int heads,
                        const std::int32_t* counts, int block, const float* panel, int width, float* scores) {
  for (int r = 0; r < rows; ++r) {
    if (counts[r] <= block) continue;
    multiply_heads(queries[r] + first, head_stride, heads, panel, width,
                   whole_vectors(block_keys(counts[r], block)),
                   scores + static_cast<std::size_t>(r) * heads * kPanel, kPanel);
  }
}

// The scores of one head, unscaled, become exp(score * scale - largest), zeros up to a multiple of 16. They
// lie in blocks of kPanel, `stride` from one to the next.
inline void soften(float* scores, std::size_t stride, int keys, float scale, float& most, float& total) {
  const auto at = [=](int t) { return scores + static_cast<std::size_t>(t / kPanel) * stride + t % kPanel; };
  const auto pad = [=](float value) {
    for (int t = keys; t < whole_vectors(keys); ++t) *at(t) = value;
  };
  Vec greatest = broadcast(-__builtin_inff());
  for (int t = 0; t < keys; t += kLanes) {
    store(at(t), load(at(t)) * broadcast(scale));
    if (t + kLanes > keys) pad(-__builtin_inff());
    greatest = max(greatest, load(at(t)));
  }
  most = largest(greatest);
  Vec sums = broadcast(0.0F);
  for (int t = 0; t < keys; t += kLanes) {
    store(at(t), exp_approx(load(at(t)) - broadcast(most)));
    if (t + kLanes > keys) pad(0.0F);
    sums = sums + load(at(t));
  }
  total = sum(sums);
}

template <CacheFormat kFormat>
inline void attention_part_of(const AttentionPart& a) {
  const auto dim = static_cast<std::size_t>(a.dim);
  const std::size_t row_scores = static_cast<std::size_t>(a.heads) * kPanel;
  const std::size_t block_scores = static_cast<std::size_t>(a.rows) * row_scores;
  const int count = largest_count(a.counts, a.rows);
  float* panel = a.scratch;
  float* all_scores = panel + kPanel * kPanel;  // [blocks of the part, rows, heads, 64]
  for (int block = 0; block < count; block += kPanel) {
    float* scores = all_scores + block / kPanel * block_scores;
    const int keys = block_keys(count, block);
    for (std::size_t i = 0; i < block_scores; i += kLanes) store(scores + i, broadcast(0.0F));
    touch_rows(a.values, a.stride, a.slots + block, keys, dim * Cached<kFormat>::kBytes);
    for (const AttentionKeys& plane : a.keys) {
      if (plane.data != a.values) {
        touch_rows(plane.data, plane.stride, a.slots + block, keys,
                   static_cast<std::size_t>(plane.width) * Cached<kFormat>::kBytes);
      }
      for (int i = 0; i < plane.width; i += kPanel) {
        const int width = block_keys(plane.width, i);
        turn_panel<kFormat>(plane.data, plane.stride, a.slots + block, keys, i, width, panel);
        score_panel(plane.queries, i, static_cast<std::size_t>(plane.width), a.rows, a.heads, a.counts, block,
                    panel, width, scores);
      }
    }
  }
  for (int r = 0; r < a.rows; ++r) {
    for (int h = 0; h < a.heads; ++h) {
      soften(all_scores + r * row_scores + static_cast<std::size_t>(h) * kPanel, block_scores, a.counts[r],
             a.scale, a.sums[r].largest[h], a.sums[r].sum[h]);
    }
    for (std::size_t i = 0; i < static_cast<std::size_t>(a.heads) * dim; i += kLanes) {
      store(a.sums[r].out + i, broadcast(0.0F));
    }
  }
  for (int block = 0; block < count; block += kPanel) {
    const float* scores = all_scores + block / kPanel * block_scores;
    for (int i = 0; i < a.dim; i += kPanel) {
      const int width = block_keys(a.dim, i);
      copy_panel<kFormat>(a.values, a.stride, a.slots + block, block_keys(count, block), i, width, panel);
      for (int r = 0; r < a.rows; ++r) {
        if (a.counts[r] <= block) continue;
        multiply_heads(scores + r * row_scores, kPanel, a.heads, panel, block_keys(a.counts[r], block), width,
                       a.sums[r].out + i, dim);
      }
    }
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

void finish_attention(const AttentionSums& sums, int heads, int dim) {
  for (int h = 0; h < heads; ++h) {
    const Vec sum_of_weights = broadcast(sums.sum[h]);
    for (int i = h * dim; i < (h + 1) * dim; i += kLanes) {
      store(sums.out + i, load(sums.out + i) / sum_of_weights);
    }
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
  const float* queries[kAttentionRows];
  for (int r = 0; r < a.rows; ++r) queries[r] = a.queries + static_cast<std::size_t>(r) * heads * dim;
  for (int block = 0; block < count; block += kPanel) {
    const int keys = block_keys(count, block);
    for (std::size_t i = 0; i < cells * kPanel; i += kLanes) store(dots + i, broadcast(0.0F));
    for (int i = 0; i < a.dim; i += kPanel) {
      const int width = block_keys(a.dim, i);
      turn_panel<kFormat>(a.keys, dim * Cached<kFormat>::kBytes, a.slots + block, keys, i, width, panel);
      score_panel(queries, i, dim, a.rows, a.heads, a.counts, block, panel, width, dots);
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

void attention_part(const AttentionPart& a) {
  switch (a.format) {
    case CacheFormat::kF32:
      return attention_part_of<CacheFormat::kF32>(a);
    case CacheFormat::kBF16:
      return attention_part_of<CacheFormat::kBF16>(a);
    case CacheFormat::kF8:
      return attention_part_of<CacheFormat::kF8>(a);
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
