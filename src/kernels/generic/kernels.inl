// The float kernels, written once over the 16-lane Vec of the including file (avx2/vec.inl, avx512/vec.inl).
// Included inside a begin.h region and a namespace of its own; uses no function template of the standard
// library, whose instances the linker would share with code for lesser CPUs. scalar/scalar.cpp says what each
// one computes.

// Adds the products of `inputs` input features to even and odd sums; asks for as many weights from `ahead`
// on, unless it is null.
template <int kRows, typename LoadPair>
inline void add_pairs(const std::byte* weights, std::size_t pair_bytes, LoadPair load_pair,
                      const std::byte* ahead, const float* const* x, int first, int inputs,
                      Vec (&even)[kRows], Vec (&odd)[kRows]) {
  for (int k = first; k < first + inputs; k += 2, weights += pair_bytes) {
    if (ahead != nullptr) {
      for (std::size_t i = 0; i < pair_bytes; i += 64) _mm_prefetch(ahead + i, _MM_HINT_T1);
      ahead += pair_bytes;
    }
    Vec w_even;
    Vec w_odd;
    load_pair(weights, w_even, w_odd);
    KERNEL_UNROLL
    for (int m = 0; m < kRows; ++m) {
      even[m] = fma(w_even, broadcast(x[m][k]), even[m]);
      odd[m] = fma(w_odd, broadcast(x[m][k + 1]), odd[m]);
    }
  }
}

// Inputs between two looks at where the weights asked for lie.
inline constexpr int kFloatStretch = 64;

// The weights that the rows from `first` on ask for at `at`: a tile's first rows do, the others find it in a
// cache.
inline const std::byte* float_ahead(const FloatTile& t, int first, const std::byte* at,
                                    const std::byte* end) {
  return first == 0 && t.ahead.bytes > 0 ? place_ahead(t.ahead, at, end) : nullptr;
}

template <int kRows, typename LoadPair>
inline void float_rows(const FloatTile& t, int first, std::size_t pair_bytes, LoadPair load_pair) {
  Vec even[kRows];
  Vec odd[kRows];
  KERNEL_UNROLL
  for (int m = 0; m < kRows; ++m) even[m] = odd[m] = broadcast(0.0F);
  const std::byte* weights = t.weights;
  const std::byte* const end = weights + static_cast<std::size_t>(t.inputs / 2) * pair_bytes;
  for (int at = 0; at < t.inputs; at += kFloatStretch, weights += kFloatStretch / 2 * pair_bytes) {
    const int inputs = t.inputs - at < kFloatStretch ? t.inputs - at : kFloatStretch;
    add_pairs<kRows>(weights, pair_bytes, load_pair, float_ahead(t, first, weights, end), t.x + first, at,
                     inputs, even, odd);
  }
  KERNEL_UNROLL
  for (int m = 0; m < kRows; ++m) store(t.y[first + m], even[m] + odd[m]);
}

// Rows in steps of which the running sums fit the registers.
template <typename LoadPair>
inline void float_tile(const FloatTile& t, std::size_t pair_bytes, LoadPair load_pair) {
  int m = 0;
  if constexpr (kFloatRows == 4) {
    for (; m + 4 <= t.rows; m += 4) float_rows<4>(t, m, pair_bytes, load_pair);
  }
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

struct LoadFp8Pair {
  void operator()(const std::byte* p, Vec& even, Vec& odd) const {
    even = load_small_e4m3(p);
    odd = load_small_e4m3(p + kRowTile);
  }
};

template <int kRows>
inline void fp8_rows(const FloatTile& t, int first) {
  Vec sums[kRows];
  KERNEL_UNROLL
  for (int m = 0; m < kRows; ++m) sums[m] = broadcast(0.0F);
  const std::byte* block = t.weights;
  const std::byte* const end =
      block + t.inputs * kRowTile + (t.inputs + kFp8Inputs - 1) / kFp8Inputs * kFp8ScaleBytes;
  for (int at = 0; at < t.inputs; at += kFp8Inputs) {
    const int inputs = t.inputs - at < kFp8Inputs ? t.inputs - at : kFp8Inputs;
    const std::byte* codes = block + kFp8ScaleBytes;
    Vec even[kRows];
    Vec odd[kRows];
    KERNEL_UNROLL
    for (int m = 0; m < kRows; ++m) even[m] = odd[m] = broadcast(0.0F);
    add_pairs<kRows>(codes, 2 * kRowTile, LoadFp8Pair{}, float_ahead(t, first, block, end), t.x + first, at,
                     inputs, even, odd);
    const Vec factor = load(reinterpret_cast<const float*>(block));
    KERNEL_UNROLL
    for (int m = 0; m < kRows; ++m) sums[m] = fma(even[m] + odd[m], factor, sums[m]);
    block = codes + inputs * kRowTile;
  }
  KERNEL_UNROLL
  for (int m = 0; m < kRows; ++m) store(t.y[first + m], sums[m]);
}

void fp8_tile(const FloatTile& t) {
  int m = 0;
  for (; m + 4 <= t.rows; m += 4) fp8_rows<4>(t, m);
  for (; m + 2 <= t.rows; m += 2) fp8_rows<2>(t, m);
  if (m < t.rows) fp8_rows<1>(t, m);
}

template <Compute kCompute>
inline void quantize_group(Vec v, QuantizedGroup<kCompute>* group) {
  const std::uint32_t largest = largest_magnitude_bits(v);
  group->scale = group_scale(largest, kCompute);
  const Vec scaled = is_rounded(largest) ? v * broadcast(1.0F / group->scale) : broadcast(0.0F);
  std::int32_t sum;
  if constexpr (kCompute == Compute::kFast) {
    sum = store_int8(group->values, scaled);
  } else {
    sum = store_planes(group->values, group->low, scaled);
  }
  group->correction = -kCodeOffset * sum;
}

template <Compute kCompute>
void quantize(const float* x, int n, std::byte* out) {
  auto* group = reinterpret_cast<QuantizedGroup<kCompute>*>(out);
  for (int g = 0; g < n / kGroup; ++g) quantize_group<kCompute>(load(x + g * kGroup), group + g);
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

inline Vec silu_times(Vec gate, Vec up) {
  return gate / (broadcast(1.0F) + exp_approx(broadcast(0.0F) - gate)) * up;
}

void silu_mul(const float* gate, const float* up, int n, float* out) {
  for (int i = 0; i < n; i += kLanes) store(out + i, silu_times(load(gate + i), load(up + i)));
}

template <Compute kCompute>
void silu_mul_quantize(const float* const* gate, const float* const* up, int rows, std::byte* const* out) {
  for (int m = 0; m < rows; ++m) {
    quantize_group<kCompute>(silu_times(load(gate[m]), load(up[m])),
                             reinterpret_cast<QuantizedGroup<kCompute>*>(out[m]));
  }
}

void axpy(float a, const float* x, int n, float* y) {
  for (int i = 0; i < n; i += kLanes) store(y + i, fma(broadcast(a), load(x + i), load(y + i)));
}

void axpy_rows(const float* a, const float* const* x, int rows, float* const* y) {
  for (int m = 0; m < rows; ++m) store(y[m], fma(broadcast(a[m]), load(x[m]), load(y[m])));
}

// Sixteen values of a KV cache of a format.
template <CacheFormat kFormat>
struct Cached;
template <>
struct Cached<CacheFormat::kF32> {
  static constexpr std::size_t kBytes = 4;
  static Vec load_at(const std::byte* p) { return load(reinterpret_cast<const float*>(p)); }
};
template <>
struct Cached<CacheFormat::kBF16> {
  static constexpr std::size_t kBytes = 2;
  static Vec load_at(const std::byte* p) { return load_bf16(p); }
};
template <>
struct Cached<CacheFormat::kF8> {
  static constexpr std::size_t kBytes = 1;
  static Vec load_at(const std::byte* p) { return load_e4m3(p); }
};
