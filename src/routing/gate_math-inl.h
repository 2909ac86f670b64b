// exp, log1p and the scores of a router over an abstract vector. Included by each row_kernels_<isa>.cpp
// inside its own namespace and target region, after it has defined `Vec` (kLanes floats) and its operations:
//   load, store, set1, add, sub, mul, fma (a * b + c, rounded once), div, sqrt, min, max (the second operand
//   where the first is NaN), less (a < b), is_nan, select (mask ? a : b), negative_abs (-|a|), nearest (to an
//   integer, ties to even), scale (a * 2^n, rounded once, for an integral n in [-151, 0]).
// No include guard on purpose; no headers here, because a header read inside a target region would be
// compiled for that target everywhere.
//
// Errors, with u = 2^-24 the unit roundoff. Only x <= 0 is ever raised to e.
//   exp_negative: n ln2 is subtracted in two parts, the first exactly; r carries at most u |r| + 2^-31, the
//     polynomial of degree 7 misses 0.35^8 / 8! < 6e-9 = 0.1 u, Horner's last two steps round to 1.5 u: below
//     3 u.
//   log1p_unit: 2 atanh(z), z = e / (2 + e) <= 1/3; z rounds twice, the series stops at z^15 and misses
//     z^16 / 17 * 9/8 < 2e-9 = 0.03 u, Horner and the last product give 2 u: below 5 u.
//   sigmoid: exp, a sum and a quotient: below 6 u. sqrt_softplus: (5 u + 3 u + u) / 2 + u: below 6 u.
// The tests hold all of them to 8 u = 2^-21, and to the smallest denormal below the normal range.

inline constexpr float kLog2E = 1.44269502F;
// ln 2 = high + low; high has 15 bits, so n * high and the first difference are exact for |n| <= 256.
inline constexpr float kLn2High = 0.693145752F;
inline constexpr float kLn2Low = 1.42860677e-6F;
inline constexpr float kExpSeries[] = {1.0F / 5040.0F, 1.0F / 720.0F, 1.0F / 120.0F, 1.0F / 24.0F,
                                       1.0F / 6.0F,    0.5F,          1.0F,          1.0F};

// e^x for x <= 0. At -104 and below the scaled polynomial lies under half the smallest denormal and becomes
// 0. NaN gives a number: callers that may meet one ask is_nan.
inline Vec exp_negative(Vec x) {
  const Vec clamped = max(x, set1(-104.0F));
  const Vec n = nearest(mul(clamped, set1(kLog2E)));
  const Vec r = fma(n, set1(-kLn2Low), fma(n, set1(-kLn2High), clamped));
  Vec poly = set1(kExpSeries[0]);
  for (int i = 1; i < 8; ++i) poly = fma(poly, r, set1(kExpSeries[i]));
  return scale(poly, n);
}

// log(1 + e) for e in [0, 1].
inline Vec log1p_unit(Vec e) {
  const Vec z = div(e, add(e, set1(2.0F)));
  const Vec z2 = mul(z, z);
  Vec series = set1(1.0F / 15.0F);
  series = fma(series, z2, set1(1.0F / 13.0F));
  series = fma(series, z2, set1(1.0F / 11.0F));
  series = fma(series, z2, set1(1.0F / 9.0F));
  series = fma(series, z2, set1(1.0F / 7.0F));
  series = fma(series, z2, set1(1.0F / 5.0F));
  series = fma(series, z2, set1(1.0F / 3.0F));
  series = mul(series, z2);
  const Vec twice = add(z, z);
  return fma(twice, series, twice);
}

inline Vec sigmoid(Vec l) {
  const Vec e = exp_negative(negative_abs(l));
  return div(select(less(l, set1(0.0F)), e, set1(1.0F)), add(set1(1.0F), e));
}

// sqrt(max(l, 0) + log(1 + e^-|l|)); +infinity scores like the largest float, so that sums stay finite.
inline Vec sqrt_softplus(Vec l) {
  const Vec e = exp_negative(negative_abs(l));
  const Vec positive = select(less(l, set1(0.0F)), set1(0.0F), min(l, set1(3.40282347e38F)));
  return sqrt(add(positive, log1p_unit(e)));
}

// exp(l - largest), 1 where they are equal (also at infinities).
inline Vec exp_below(Vec l, Vec largest) {
  return select(less(l, largest), exp_negative(sub(l, largest)), set1(1.0F));
}

// The score of each logit; of NaN some number or NaN.
inline Vec raw_score_of(Scoring scoring, Vec l, Vec largest, Vec sum) {
  Vec score = set1(0.0F);
  switch (scoring) {
    case Scoring::kSoftmax:
      score = div(exp_below(l, largest), sum);
      break;
    case Scoring::kTopKThenSoftmax:
      score = exp_below(l, largest);
      break;
    case Scoring::kSqrtSoftplus:
      score = sqrt_softplus(l);
      break;
    case Scoring::kSigmoid:
    case Scoring::kSigmoidInput:
      score = sigmoid(l);
      break;
  }
  return score;
}

// The score of each logit; NaN scores 0.
inline Vec score_of(Scoring scoring, Vec l, Vec largest, Vec sum) {
  return select(is_nan(l), set1(0.0F), raw_score_of(scoring, l, largest, sum));
}
