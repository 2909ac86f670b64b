// The readable kernels: the oracle of every other table, and the path of a CPU without AVX2.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/kernels.h"
#include "kernels/scalar/attention.h"
#include "kernels/scalar/math.h"
#include "kernels/tables.h"
#include "tensor/formats/bf16.h"
#include "tensor/formats/nvfp4.h"

namespace tagalong::kernels {

namespace scalar {

namespace {

// weight_at(weights, k, r): the element of row r and input feature k of the tile.
template <typename WeightAt>
void float_tile(const FloatTile& t, WeightAt weight_at) {
  for (int m = 0; m < t.rows; ++m) {
    for (int r = 0; r < kRowTile; ++r) {
      float even = 0;
      float odd = 0;
      for (int k = 0; k < t.inputs; k += 2) {
        even = std::fma(weight_at(t.weights, k, r), t.x[m][k], even);
        odd = std::fma(weight_at(t.weights, k + 1, r), t.x[m][k + 1], odd);
      }
      t.y[m][r] = even + odd;
    }
  }
}

void f32_tile(const FloatTile& t) {
  float_tile(t, [](const std::byte* w, int k, int r) {
    return load<float>(w, static_cast<std::size_t>(k) * kRowTile + static_cast<std::size_t>(r));
  });
}

void bf16_tile(const FloatTile& t) {
  float_tile(t, [](const std::byte* w, int k, int r) {
    return tensor::bf16_to_float(load<std::uint16_t>(
        w, (static_cast<std::size_t>(k / 2) * kRowTile + static_cast<std::size_t>(r)) * 2 + k % 2));
  });
}

// Sum of the products of group `g` of a superblock's row r, e2m1 values doubled: an exact integer.
int group_dot(const std::byte* superblock, int g, int r, const std::int8_t* x) {
  int dot = 0;
  for (int k = 0; k < kGroup; ++k) {
    const auto byte = std::to_integer<unsigned>(superblock[64 + (g * 2 + k / 8) * 64 + r * 4 + k % 4]);
    const unsigned code = k % 8 < 4 ? byte & 0xFU : byte >> 4;
    dot += static_cast<int>(2 * tensor::e2m1_to_float(code)) * x[k];
  }
  return dot;
}

void nvfp4_tile(const Nvfp4Tile& t) {
  for (int stream = 0; stream < t.streams; ++stream) {
    for (int m = 0; m < t.rows; ++m) {
      for (int r = 0; r < kRowTile; ++r) {
        float sum = 0;
        for (int b = 0; b < t.superblocks; ++b) {
          const std::byte* superblock = t.weights + (b * t.streams + stream) * kSuperblockBytes;
          for (int g = 0; g < kSuperblock / kGroup; ++g) {
            const int dot = group_dot(superblock, g, r, t.x[m].values + b * kSuperblock + g * kGroup);
            const float scale =
                tensor::e4m3_to_float(std::to_integer<std::uint8_t>(superblock[g * kRowTile + r])) * 0x1p-8F;
            // The first product is exact: 15 bits times 4.
            sum = std::fma(static_cast<float>(dot) * scale, t.x[m].scales[b * 4 + g], sum);
          }
        }
        t.y[stream][m][r] = sum * t.scales[stream];
      }
    }
  }
}

void quantize(const float* x, int n, std::int8_t* values, float* scales, std::int32_t* corrections) {
  for (int g = 0; g < n / kGroup; ++g) {
    std::uint32_t largest = 0;
    for (int i = 0; i < kGroup; ++i) {
      largest = std::max(largest, std::bit_cast<std::uint32_t>(x[g * kGroup + i]) & 0x7FFFFFFFU);
    }
    const bool finite = largest < 0x7F800000U;
    const auto magnitude = std::bit_cast<float>(largest);
    const bool zero = magnitude < 0x1p-120F;
    const float factor = finite && !zero ? 127.0F / magnitude : 0.0F;
    std::int32_t sum = 0;
    for (int i = 0; i < kGroup; ++i) {
      const auto q = finite ? static_cast<std::int32_t>(std::nearbyint(x[g * kGroup + i] * factor)) : 0;
      values[g * kGroup + i] = static_cast<std::int8_t>(q);
      sum += q;
    }
    scales[g] = !finite ? std::numeric_limits<float>::quiet_NaN() : zero ? 0.0F : magnitude / 127.0F;
    corrections[g] = -12 * sum;
  }
}

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

void axpy(float a, const float* x, int n, float* y) {
  for (int i = 0; i < n; ++i) y[i] = std::fma(a, x[i], y[i]);
}

std::uint32_t read_stream(const std::byte* data, std::size_t bytes) {
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < bytes; i += sizeof(bits)) bits |= load<std::uint32_t>(data, i / sizeof(bits));
  return bits;
}

std::int64_t multiply_peak(int rounds) {
  volatile std::int32_t factor = 3;
  std::array<std::int32_t, 8> sums{};
  const std::int32_t x = factor;
  for (int i = 0; i < rounds; ++i) {
    for (std::int32_t& sum : sums) sum += x * (i & 127);
  }
  factor = sums[0] + sums[7];
  return std::int64_t{rounds} * 8;
}

}  // namespace
}  // namespace scalar

const Kernels& scalar_kernels() {
  static constexpr Kernels kTable{
      .name = "scalar",
      .f32_tile = scalar::f32_tile,
      .bf16_tile = scalar::bf16_tile,
      .nvfp4_tile = scalar::nvfp4_tile,
      .quantize = scalar::quantize,
      .rms_norm = scalar::rms_norm,
      .layer_norm = scalar::layer_norm,
      .silu_mul = scalar::silu_mul,
      .axpy = scalar::axpy,
      .latent_attention = scalar::latent_attention,
      .index_scores = scalar::index_scores,
      .read_stream = scalar::read_stream,
      .multiply_peak = scalar::multiply_peak,
  };
  return kTable;
}

}  // namespace tagalong::kernels
