// The codes of sigmoid keys of a usual row, the inner loop of the models with a correction bias. Included by
// the vector instruction sets between gate_math-inl.h and row_kernels-inl.h, like these without include
// guard. Needs beyond what they need: max_bits (of the bits as unsigned integers), any_bits_above (both
// operands with their sign set), add_exponent (a * 2^n, the result being normal, for the n whose sum with 1.5
// * 2^23 the second operand is), select_negative (by the sign bit of the first operand), store_codes without
// a mask.

inline constexpr int kUsualVecs = 8;  // measured: 4 take a twentieth longer, and 1 a quarter

// The codes of kVecs vectors at a time, each step for all of them before the next: one vector after the other
// would fill the processor's queue with steps that wait for each other. The steps are those of sigmoid().
template <int kVecs>
inline void usual_codes(const float* logits, const float* bias, Vec& farthest, std::uint32_t* out) {
  const Vec magic = set1(0x1.8p23F);
  Vec l[kVecs];
  Vec x[kVecs];
  Vec shifted[kVecs];
  Vec r[kVecs];
  Vec e[kVecs];
  const auto each = [](auto&& step) {
    for (int v = 0; v < kVecs; ++v) step(v);
  };
  each([&](int v) {
    l[v] = load(logits + v * kLanes);
    x[v] = negative_abs(l[v]);
    farthest = max_bits(farthest, x[v]);
  });
  each([&](int v) { shifted[v] = add(mul(x[v], set1(kLog2E)), magic); });  // rounds like nearest()
  each([&](int v) {
    const Vec n = sub(shifted[v], magic);
    r[v] = fma(n, set1(-kLn2Low), fma(n, set1(-kLn2High), x[v]));
    e[v] = set1(kExpSeries[0]);
  });
  for (int i = 1; i < 8; ++i) each([&](int v) { e[v] = fma(e[v], r[v], set1(kExpSeries[i])); });
  each([&](int v) {
    e[v] = add_exponent(e[v], shifted[v]);
    const Vec score = div(select_negative(l[v], e[v], set1(1.0F)), add(set1(1.0F), e[v]));
    store_codes(out + v * kLanes, add(score, load(bias + v * kLanes)));
  });
}

// Of a row whose logits are all numbers between -86 and 86: e^-|l| is then a normal float, which needs
// neither clamp nor a scaling that rounds, and the bits are those of the general way at two thirds of its
// steps. False for any other row, whose codes are then to be thrown away, and for one that is no whole number
// of vectors.
inline bool usual_sigmoid_codes(const float* logits, const float* bias, int n, std::uint32_t* out) {
  if (n % kLanes != 0) return false;
  Vec farthest = set1(-0.0F);
  int i = 0;
  for (; i + kUsualVecs * kLanes <= n; i += kUsualVecs * kLanes) {
    usual_codes<kUsualVecs>(logits + i, bias + i, farthest, out + i);
  }
  for (; i < n; i += kLanes) usual_codes<1>(logits + i, bias + i, farthest, out + i);
  return !any_bits_above(farthest, set1(-86.0F));  // NaN has larger bits than any number
}
