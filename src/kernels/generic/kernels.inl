// The float kernels, written once over the 16-lane Vec of the including file (avx2/vec.inl, avx512/vec.inl).
// Included inside a begin.h region and a namespace of its own; uses no function template of the standard
// library, whose instances the linker would share with code for lesser CPUs. scalar/scalar.cpp says what each one computes.

template <int kRows, typename LoadPair>
inline void float_rows(const FloatTile& t, int first, std::size_t pair_bytes, LoadPair load_pair) {
  Vec even[kRows];
  Vec odd[kRows];
  for (int m = 0; m < kRows; ++m) even[m] = odd[m] = broadcast(0.0F);
  const float* const* x = t.x + first;
  const std::byte* weights = t.weights;
  for (int k = 0; k < t.inputs; k += 2, weights += pair_bytes) {
    Vec w_even;
    Vec w_odd;
    load_pair(weights, w_even, w_odd);
    for (int m = 0; m < kRows; ++m) {
      even[m] = fma(w_even, broadcast(x[m][k]), even[m]);
      odd[m] = fma(w_odd, broadcast(x[m][k + 1]), odd[m]);
    }
  }
  for (int m = 0; m < kRows; ++m) store(t.y[first + m], even[m] + odd[m]);
}

// Rows in steps of at most four: eight running vectors, the weights and the broadcasts fit the registers of
// AVX2 as nearly as may be, and those of AVX-512 amply.
template <typename LoadPair>
inline void float_tile(const FloatTile& t, std::size_t pair_bytes, LoadPair load_pair) {
  int m = 0;
  for (; m + 4 <= t.rows; m += 4) float_rows<4>(t, m, pair_bytes, load_pair);
  for (; m + 2 <= t.rows; m += 2) float_rows<2>(t, m, pair_bytes, load_pair);
  if (m < t.rows) float_rows<1>(t, m, pair_bytes, load_pair);
}

struct LoadF32Pair {
  void operator()(const std::byte* p, Vec& even, Vec& odd) const {
    even = load(reinterpret_cast<const float*>(p));
    odd = load(reinterpret_cast<const float*>(p) + kLanes);
  }
};
struct LoadBf16Pair {
  void operator()(const std::byte* p, Vec& even, Vec& odd) const { load_bf16_pairs(p, even, odd); }
};

void f32_tile(const FloatTile& t) { float_tile(t, 2 * kRowTile * sizeof(float), LoadF32Pair{}); }
void bf16_tile(const FloatTile& t) { float_tile(t, 2 * kRowTile * sizeof(std::uint16_t), LoadBf16Pair{}); }

void quantize(const float* x, int n, std::int8_t* values, float* scales, std::int32_t* corrections) {
  for (int g = 0; g < n / kGroup; ++g) {
    const Vec v = load(x + g * kGroup);
    const std::uint32_t largest = largest_magnitude_bits(v);
    const bool finite = largest < 0x7F800000U;
    const auto magnitude = __builtin_bit_cast(float, largest);
    const bool zero = magnitude < 0x1p-120F;
    const Vec scaled = finite && !zero ? v * broadcast(127.0F / magnitude) : broadcast(0.0F);
    corrections[g] = -12 * store_int8(values + g * kGroup, scaled);
    scales[g] = !finite ? __builtin_nanf("") : zero ? 0.0F : magnitude / 127.0F;
  }
}

void rms_norm(const float* x, const float* weight, float eps, int n, float* out) {
  Vec squares = broadcast(0.0F);
  for (int i = 0; i < n; i += kLanes) squares = fma(load(x + i), load(x + i), squares);
  const Vec factor = broadcast(1.0F / __builtin_sqrtf(sum(squares) / static_cast<float>(n) + eps));
  for (int i = 0; i < n; i += kLanes) store(out + i, load(x + i) * factor * load(weight + i));
}

void layer_norm(const float* x, const float* weight, const float* bias, float eps, int n, float* out) {
  Vec sums = broadcast(0.0F);
  for (int i = 0; i < n; i += kLanes) sums = sums + load(x + i);
  const Vec mean = broadcast(sum(sums) / static_cast<float>(n));
  Vec squares = broadcast(0.0F);
  for (int i = 0; i < n; i += kLanes) {
    const Vec d = load(x + i) - mean;
    squares = fma(d, d, squares);
  }
  const Vec factor = broadcast(1.0F / __builtin_sqrtf(sum(squares) / static_cast<float>(n) + eps));
  for (int i = 0; i < n; i += kLanes) {
    store(out + i, fma((load(x + i) - mean) * factor, load(weight + i), load(bias + i)));
  }
}

inline Vec exp_approx(Vec x) {
  const Vec limited = min(broadcast(88.0F), max(broadcast(-87.0F), x));
  const Vec n = round_even(limited * broadcast(1.44269504088896341F));
  Vec r = fma(n, broadcast(-0.693359375F), limited);
  r = fma(n, broadcast(2.12194440e-4F), r);
  Vec p = broadcast(1.9875691500e-4F);
  p = fma(p, r, broadcast(1.3981999507e-3F));
  p = fma(p, r, broadcast(8.3334519073e-3F));
  p = fma(p, r, broadcast(4.1665795894e-2F));
  p = fma(p, r, broadcast(1.6666665459e-1F));
  p = fma(p, r, broadcast(5.0000001201e-1F));
  p = fma(p, r * r, r) + broadcast(1.0F);
  return p * power_of_two(n);
}

void silu_mul(const float* gate, const float* up, int n, float* out) {
  for (int i = 0; i < n; i += kLanes) {
    const Vec g = load(gate + i);
    store(out + i, g / (broadcast(1.0F) + exp_approx(broadcast(0.0F) - g)) * load(up + i));
  }
}

void axpy(float a, const float* x, int n, float* y) {
  for (int i = 0; i < n; i += kLanes) store(y + i, fma(broadcast(a), load(x + i), load(y + i)));
}

struct CachedF32 {
  static constexpr std::size_t kBytes = 4;
  static Vec load_at(const std::byte* p) { return load(reinterpret_cast<const float*>(p)); }
};
struct CachedBf16 {
  static constexpr std::size_t kBytes = 2;
  static Vec load_at(const std::byte* p) { return load_bf16(p); }
};

template <typename Cached>
inline Vec dot_cached(const float* query, const std::byte* row, int n, Vec sums) {
  for (int i = 0; i < n; i += kLanes) sums = fma(load(query + i), Cached::load_at(row + i * Cached::kBytes), sums);
  return sums;
}

// scores[t] becomes exp(scores[t] - largest); returns their sum, term t in lane t % 16.
inline float exponentials(float* scores, int count, float largest) {
  Vec total = broadcast(0.0F);
  int t = 0;
  for (; t + kLanes <= count; t += kLanes) {
    const Vec p = exp_approx(load(scores + t) - broadcast(largest));
    store(scores + t, p);
    total = total + p;
  }
  if (t < count) {
    const int rest = count - t;
    float tail[kLanes] = {};
    for (int i = 0; i < rest; ++i) tail[i] = scores[t + i];
    store(tail, exp_approx(load(tail) - broadcast(largest)));
    for (int i = 0; i < rest; ++i) scores[t + i] = tail[i];
    for (int i = rest; i < kLanes; ++i) tail[i] = 0.0F;
    total = total + load(tail);
  }
  return sum(total);
}

template <typename Cached>
inline void latent_attention_of(const LatentAttention& a) {
  const std::size_t latent_bytes = static_cast<std::size_t>(a.latent) * Cached::kBytes;
  const std::size_t rope_bytes = static_cast<std::size_t>(a.rope) * Cached::kBytes;
  for (int h = 0; h < a.heads; ++h) {
    const float* q_latent = a.q_latent + h * a.latent;
    const float* q_rope = a.q_rope + h * a.rope;
    float largest = -__builtin_inff();
    for (int t = 0; t < a.count; ++t) {
      const auto slot = static_cast<std::size_t>(a.slots[t]);
      Vec sums = dot_cached<Cached>(q_latent, a.latents + slot * latent_bytes, a.latent, broadcast(0.0F));
      sums = dot_cached<Cached>(q_rope, a.ropes + slot * rope_bytes, a.rope, sums);
      a.scores[t] = sum(sums) * a.scale;
      largest = largest > a.scores[t] ? largest : a.scores[t];
    }
    const Vec total = broadcast(exponentials(a.scores, a.count, largest));
    float* out = a.out + h * a.latent;
    // Four vectors of the latent at a time: enough chains to hide the latency of the additions.
    int i = 0;
    for (; i + 4 * kLanes <= a.latent; i += 4 * kLanes) {
      Vec sums[4] = {broadcast(0.0F), broadcast(0.0F), broadcast(0.0F), broadcast(0.0F)};
      for (int t = 0; t < a.count; ++t) {
        const std::byte* row = a.latents + static_cast<std::size_t>(a.slots[t]) * latent_bytes + i * Cached::kBytes;
        const Vec p = broadcast(a.scores[t]);
        for (int j = 0; j < 4; ++j) sums[j] = fma(p, Cached::load_at(row + j * kLanes * Cached::kBytes), sums[j]);
      }
      for (int j = 0; j < 4; ++j) store(out + i + j * kLanes, sums[j] / total);
    }
    for (; i < a.latent; i += kLanes) {
      Vec sums = broadcast(0.0F);
      for (int t = 0; t < a.count; ++t) {
        const std::byte* row = a.latents + static_cast<std::size_t>(a.slots[t]) * latent_bytes + i * Cached::kBytes;
        sums = fma(broadcast(a.scores[t]), Cached::load_at(row), sums);
      }
      store(out + i, sums / total);
    }
  }
}

void latent_attention(const LatentAttention& a) {
  if (a.format == CacheFormat::kF32) {
    latent_attention_of<CachedF32>(a);
  } else {
    latent_attention_of<CachedBf16>(a);
  }
}

template <typename Cached>
inline void index_scores_of(const IndexScores& a) {
  const std::size_t row_bytes = static_cast<std::size_t>(a.dim) * Cached::kBytes;
  for (int t = 0; t < a.count; ++t) {
    const std::byte* key = a.keys + static_cast<std::size_t>(a.slots[t]) * row_bytes;
    float score = 0;
    for (int h = 0; h < a.heads; ++h) {
      const float dot = sum(dot_cached<Cached>(a.queries + h * a.dim, key, a.dim, broadcast(0.0F))) * a.scale;
      score = __builtin_fmaf(a.weights[h], 0.0F > dot ? 0.0F : dot, score);
    }
    a.out[t] = score;
  }
}

void index_scores(const IndexScores& a) {
  if (a.format == CacheFormat::kF32) {
    index_scores_of<CachedF32>(a);
  } else {
    index_scores_of<CachedBf16>(a);
  }
}
