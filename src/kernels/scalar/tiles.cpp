#include "kernels/scalar/tiles.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/nvfp4_head.h"
#include "kernels/scalar/math.h"
#include "tensor/formats/bf16.h"
#include "tensor/formats/f16.h"
#include "tensor/formats/fp8.h"
#include "tensor/formats/nvfp4.h"

namespace tagalong::kernels::scalar {

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

// e2m1 doubled: an integer.
int nibble_value(unsigned code) { return static_cast<int>(2 * tensor::e2m1_to_float(code)); }

// The nibble of row r and input k of the group of 16 whose two lines start at `lines`.
int nibble_at(const std::byte* lines, int k, int r) {
  const auto byte = std::to_integer<unsigned>(lines[k / 8 * 64 + r * 4 + k % 4]);
  return nibble_value(k % 8 < 4 ? byte & 0xFU : byte >> 4);
}

// What a block of each format holds: whole numbers by group of 16 inputs, and the groups' scales.
struct Nvfp4Block {
  static constexpr int kGroups = kNvfp4Inputs / kGroup;
  static constexpr int kBytes = kNvfp4Bytes;
  static int weight_at(const std::byte* block, int g, int k, int r) {
    return nibble_at(block + sizeof(Nvfp4Head) + g * 128, k, r);
  }
  static float scale_at(const std::byte* block, const std::byte* tile_end, int g, int r) {
    const auto& head = *reinterpret_cast<const Nvfp4Head*>(block);
    return tensor::e4m3_to_float(kernels::scale_at(head, tile_end, g * kRowTile + r)) * 0x1p-8F;
  }
};

struct Mxfp4Block {
  static constexpr int kGroups = kMxfp4Inputs / kGroup;
  static constexpr int kBytes = kMxfp4Bytes;
  static int weight_at(const std::byte* block, int g, int k, int r) {
    return nibble_at(block + 64 + g * 128, k, r);
  }
  // The exponent of a binary32; 2^-127, which would be subnormal, counts as zero.
  static float scale_at(const std::byte* block, const std::byte*, int g, int r) {
    return std::bit_cast<float>(std::uint32_t{load<std::uint8_t>(block, g / 2 * kRowTile + r)} << 23);
  }
};

struct Q8Block {
  static constexpr int kGroups = kQ8Inputs / kGroup;
  static constexpr int kBytes = kQ8Bytes;
  static int weight_at(const std::byte* block, int g, int k, int r) {
    return load<std::int8_t>(block, 64 + g * 256 + k / 4 * 64 + r * 4 + k % 4);
  }
  static float scale_at(const std::byte* block, const std::byte*, int g, int r) {
    return tensor::f16_to_float(load<std::uint16_t>(block, g / 2 * kRowTile + r));
  }
};

// The whole number that stands for activation k of a group.
int code_at(const QuantizedGroup<Compute::kFast>& x, int k) { return x.values[k]; }
int code_at(const QuantizedGroup<Compute::kAccurate>& x, int k) { return 128 * x.values[k] + x.low[k]; }

template <typename Block, Compute kCompute>
float sum_of_row(const QuantizedTile& t, int stream, const QuantizedGroup<kCompute>* x, int r) {
  const int blocks = t.superblocks * t.streams;
  const std::byte* end = t.weights + static_cast<std::size_t>(blocks) * Block::kBytes;
  float sum = 0;
  for (int b = 0; b < t.superblocks; ++b) {
    const std::byte* block = t.weights + static_cast<std::size_t>(b * t.streams + stream) * Block::kBytes;
    for (int g = 0; g < Block::kGroups; ++g) {
      int dot = 0;
      for (int k = 0; k < kGroup; ++k) dot += Block::weight_at(block, g, k, r) * code_at(*x, k);
      sum = std::fma(static_cast<float>(dot), Block::scale_at(block, end, g, r) * x->scale, sum);
      ++x;
    }
  }
  return sum * t.scales[stream];
}

template <typename Block, Compute kCompute>
void quantized_tile(const QuantizedTile& t) {
  for (int stream = 0; stream < t.streams; ++stream) {
    for (int m = 0; m < t.rows; ++m) {
      for (int r = 0; r < kRowTile; ++r) {
        t.y[stream][m][r] =
            sum_of_row<Block>(t, stream, reinterpret_cast<const QuantizedGroup<kCompute>*>(t.x[m]), r);
      }
    }
  }
}

}  // namespace

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

void fp8_tile(const FloatTile& t) {
  for (int m = 0; m < t.rows; ++m) {
    for (int r = 0; r < kRowTile; ++r) {
      const std::byte* block = t.weights;
      float sum = 0;
      for (int first = 0; first < t.inputs; first += kFp8Inputs) {
        const int inputs = std::min(kFp8Inputs, t.inputs - first);
        const std::byte* codes = block + kFp8ScaleBytes;
        float even = 0;
        float odd = 0;
        for (int k = 0; k < inputs; k += 2) {
          const auto weight = [&](int input) {
            return tensor::e4m3_to_float(load<std::uint8_t>(codes, input * kRowTile + r)) * 0x1p-8F;
          };
          even = std::fma(weight(k), t.x[m][first + k], even);
          odd = std::fma(weight(k + 1), t.x[m][first + k + 1], odd);
        }
        sum = std::fma(even + odd, load<float>(block, static_cast<std::size_t>(r)), sum);
        block = codes + inputs * kRowTile;
      }
      t.y[m][r] = sum;
    }
  }
}

template <Compute kCompute>
void nvfp4_tile(const QuantizedTile& t) {
  quantized_tile<Nvfp4Block, kCompute>(t);
}
template <Compute kCompute>
void mxfp4_tile(const QuantizedTile& t) {
  quantized_tile<Mxfp4Block, kCompute>(t);
}
template <Compute kCompute>
void q8_tile(const QuantizedTile& t) {
  quantized_tile<Q8Block, kCompute>(t);
}

template <Compute kCompute>
void quantize(const float* x, int n, std::byte* out) {
  auto* group = reinterpret_cast<QuantizedGroup<kCompute>*>(out);
  for (int g = 0; g < n / kGroup; ++g, ++group) {
    std::uint32_t largest = 0;
    for (int i = 0; i < kGroup; ++i) {
      largest = std::max(largest, std::bit_cast<std::uint32_t>(x[g * kGroup + i]) & 0x7FFFFFFFU);
    }
    group->scale = group_scale(largest, kCompute);
    const bool rounded = is_rounded(largest);
    std::int32_t sum = 0;
    for (int i = 0; i < kGroup; ++i) {
      const auto q =
          rounded ? static_cast<std::int32_t>(std::nearbyint(x[g * kGroup + i] * (1.0F / group->scale))) : 0;
      std::int32_t high = q;
      if constexpr (kCompute == Compute::kAccurate) {
        high = (q + 64) >> 7;  // the nearest multiple of 128, ties up
        group->low[i] = static_cast<std::int8_t>(q - high * 128);
      }
      group->values[i] = static_cast<std::int8_t>(high);
      sum += q;
    }
    group->correction = -kCodeOffset * sum;
  }
}

template void nvfp4_tile<Compute::kFast>(const QuantizedTile&);
template void nvfp4_tile<Compute::kAccurate>(const QuantizedTile&);
template void mxfp4_tile<Compute::kFast>(const QuantizedTile&);
template void mxfp4_tile<Compute::kAccurate>(const QuantizedTile&);
template void q8_tile<Compute::kFast>(const QuantizedTile&);
template void q8_tile<Compute::kAccurate>(const QuantizedTile&);
template void quantize<Compute::kFast>(const float*, int, std::byte*);
template void quantize<Compute::kAccurate>(const float*, int, std::byte*);

}  // namespace tagalong::kernels::scalar
