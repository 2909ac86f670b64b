// The readable kernels: the oracle of every other table, and the path of a CPU without AVX2.
#include <array>
#include <cmath>

#include "kernels/kernels.h"
#include "kernels/scalar/attention.h"
#include "kernels/scalar/math.h"
#include "kernels/scalar/tiles.h"
#include "kernels/tables.h"

namespace tagalong::kernels {

namespace scalar {

namespace {

void rms_norm(const float* x, const float* weight, float eps, int n, float* out) {
  Lanes squares;
  for (int i = 0; i < n; i += kLanes) squares.fma(x + i, x + i);
  const float factor = 1.0F / std::sqrt(squares.sum() / static_cast<float>(n) + eps);
  for (int i = 0; i < n; ++i) out[i] = x[i] * factor * weight[i];
}

void layer_norm(const float* x, const float* weight, const float* bias, float eps, int n, float* out) {
  Lanes sums;
  for (int i = 0; i < n; ++i) sums.v[i % kLanes] += x[i];
  const float mean = sums.sum() / static_cast<float>(n);
  Lanes squares;
  for (int i = 0; i < n; ++i) {
    const float d = x[i] - mean;
    squares.v[i % kLanes] = std::fma(d, d, squares.v[i % kLanes]);
  }
  const float factor = 1.0F / std::sqrt(squares.sum() / static_cast<float>(n) + eps);
  for (int i = 0; i < n; ++i) out[i] = std::fma((x[i] - mean) * factor, weight[i], bias[i]);
}

void silu_mul(const float* gate, const float* up, int n, float* out) {
  for (int i = 0; i < n; ++i) out[i] = gate[i] / (1.0F + exp_approx(0.0F - gate[i])) * up[i];
}

template <Compute kCompute>
void silu_mul_quantize(const float* const* gate, const float* const* up, int rows, std::byte* const* out) {
  for (int m = 0; m < rows; ++m) {
    std::array<float, kGroup> product;
    silu_mul(gate[m], up[m], kGroup, product.data());
    quantize<kCompute>(product.data(), kGroup, out[m]);
  }
}

void axpy(float a, const float* x, int n, float* y) {
  for (int i = 0; i < n; ++i) y[i] = std::fma(a, x[i], y[i]);
}

void axpy_rows(const float* a, const float* const* x, int rows, float* const* y) {
  for (int m = 0; m < rows; ++m) axpy(a[m], x[m], kLanes, y[m]);
}

std::uint32_t read_stream(const std::byte* data, std::size_t bytes) {
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < bytes; i += sizeof(bits)) bits |= load<std::uint32_t>(data, i / sizeof(bits));
  return bits;
}

std::int64_t multiply_peak(int rounds) {
  volatile std::int32_t factor = 3;
  std::array<std::int32_t, 8> sums;
  for (std::int32_t& sum : sums) sum = factor;  // as far as the compiler knows no two are equal
  const std::int32_t x = factor;
  for (int i = 0; i < rounds; ++i) {
    for (std::int32_t& sum : sums) sum += x * (i & 127);
  }
  for (const std::int32_t sum : sums) factor = sum;
  return std::int64_t{rounds} * 8;
}

}  // namespace
}  // namespace scalar

namespace {

template <Compute kCompute>
constexpr Kernels kTable{
    .name = "scalar",
    .compute = kCompute,
    .f32_tile = scalar::f32_tile,
    .bf16_tile = scalar::bf16_tile,
    .fp8_tile = scalar::fp8_tile,
    .nvfp4_tile = scalar::nvfp4_tile<kCompute>,
    .mxfp4_tile = scalar::mxfp4_tile<kCompute>,
    .q8_tile = scalar::q8_tile<kCompute>,
    .quantize = scalar::quantize<kCompute>,
    .rms_norm = scalar::rms_norm,
    .layer_norm = scalar::layer_norm,
    .silu_mul = scalar::silu_mul,
    .silu_mul_quantize = scalar::silu_mul_quantize<kCompute>,
    .axpy = scalar::axpy,
    .axpy_rows = scalar::axpy_rows,
    .attention_part = scalar::attention_part,
    .fold_attention = scalar::fold_attention,
    .finish_attention = scalar::finish_attention,
    .index_scores = scalar::index_scores,
    .read_stream = scalar::read_stream,
    .multiply_peak = scalar::multiply_peak,
};

}  // namespace

const Kernels& scalar_kernels(Compute compute) {
  return compute == Compute::kFast ? kTable<Compute::kFast> : kTable<Compute::kAccurate>;
}

}  // namespace tagalong::kernels
