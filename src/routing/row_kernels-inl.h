// The loops over one row, written once over Vec; see gate_math-inl.h for what must be defined before and why
// there is no include guard. Needs further:
//   load_partial (the first n elements, NaN beyond), store_partial, store_codes (order codes of keys that are
//   not -0; kNanCode where the mask says so), either (of two masks), any, any_of_first (n elements of a
//   mask). And usual_sigmoid_codes, as in usual_keys-inl.h.

inline constexpr int kSumLanes = 16;  // partial sums of every sum, whatever the vector's width
inline constexpr int kVecsPerSum = kSumLanes / kLanes;

// The whole of 16 elements at a time; what lies beyond n reads as NaN and thus counts for nothing.
inline Vec load_at(const float* row, int i, int n) {
  const int left = n - i;
  return left >= kLanes ? load(row + i) : load_partial(row + i, left > 0 ? left : 0);
}

inline RowNorm softmax_norm(const float* logits, int n) {
  Vec largest = set1(-std::numeric_limits<float>::infinity());
  for (int i = 0; i < n; i += kLanes) {
    const Vec l = load_at(logits, i, n);
    largest = select(less(largest, l), l, largest);
  }
  float lanes[kSumLanes];
  store(lanes, largest);
  float top = lanes[0];
  for (int i = 1; i < kLanes; ++i) top = top < lanes[i] ? lanes[i] : top;

  Vec sums[kVecsPerSum];
  for (Vec& sum : sums) sum = set1(0.0F);
  const Vec all_largest = set1(top);
  for (int i = 0; i < n; i += kSumLanes) {
    for (int v = 0; v < kVecsPerSum; ++v) {
      const Vec l = load_at(logits, i + v * kLanes, n);
      sums[v] = add(sums[v], select(is_nan(l), set1(0.0F), exp_below(l, all_largest)));
    }
  }
  for (int v = 0; v < kVecsPerSum; ++v) store(lanes + v * kLanes, sums[v]);
  for (int width = kSumLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return {.largest = top, .sum = lanes[0] > 0.0F ? lanes[0] : 1.0F};
}

inline void scores(Scoring scoring, const float* logits, int n, RowNorm norm, float* out) {
  const Vec largest = set1(norm.largest);
  const Vec sum = set1(norm.sum);
  for (int i = 0; i < n; i += kLanes) {
    const Vec score = score_of(scoring, load_at(logits, i, n), largest, sum);
    if (n - i >= kLanes) {
      store(out + i, score);
    } else {
      store_partial(out + i, score, n - i);
    }
  }
}

// One vector of keys. A score is never -0, so neither is its sum with a bias, and the code may take the sum
// as it is.
template <Scoring kScoring>
inline Mask store_biased(Vec l, Vec bias, Vec largest, Vec sum, std::uint32_t* out) {
  const Mask nan = is_nan(l);
  store_codes(out, add(raw_score_of(kScoring, l, largest, sum), bias), nan);
  return nan;
}

template <Scoring kScoring>
inline bool biased_codes(const float* logits, const float* bias, int n, RowNorm norm, std::uint32_t* out) {
  if (kScoring == Scoring::kSigmoid && usual_sigmoid_codes(logits, bias, n, out)) return false;
  const Vec largest = set1(norm.largest);
  const Vec sum = set1(norm.sum);
  Mask nan = is_nan(largest);  // none: the largest is a number
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    nan = either(nan, store_biased<kScoring>(load(logits + i), load(bias + i), largest, sum, out + i));
  }
  if (i == n) return any(nan);
  const Vec l = load_partial(logits + i, n - i);
  return any_of_first(store_biased<kScoring>(l, load_partial(bias + i, n - i), largest, sum, out + i),
                      n - i) ||
         any(nan);
}

inline bool plain_codes(const float* logits, int n, std::uint32_t* out) {
  Mask nan = is_nan(set1(0.0F));
  int i = 0;
  const auto store_plain = [&](Vec l) {
    store_codes(out + i, add(l, set1(0.0F)), is_nan(l));  // -0 + 0 = +0
    return is_nan(l);
  };
  for (; i + kLanes <= n; i += kLanes) nan = either(nan, store_plain(load(logits + i)));
  const bool tail = i < n && any_of_first(store_plain(load_partial(logits + i, n - i)), n - i);
  return tail || any(nan);
}

inline bool codes(Scoring scoring, const float* logits, const float* bias, int n, RowNorm norm,
                  std::uint32_t* out) {
  bool nan = false;
  if (bias == nullptr) {
    nan = plain_codes(logits, n, out);
  } else if (scoring == Scoring::kSigmoid) {
    nan = biased_codes<Scoring::kSigmoid>(logits, bias, n, norm, out);
  } else if (scoring == Scoring::kSqrtSoftplus) {
    nan = biased_codes<Scoring::kSqrtSoftplus>(logits, bias, n, norm, out);
  } else {
    nan = biased_codes<Scoring::kSoftmax>(logits, bias, n, norm, out);
  }
  const int padded = (n + kCodeAlign - 1) / kCodeAlign * kCodeAlign;
  for (int i = n; i < padded; ++i) out[i] = kMaskedCode;
  return nan;
}
