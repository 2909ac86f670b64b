// Helpers of the kernels' tests: random numbers, quantised rows, planes of a cache, comparison of bits.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/kernels.h"
#include "tensor/formats/bf16.h"
#include "tensor/formats/fp8.h"

namespace tagalong::kernels {

inline constexpr std::array kCacheFormats{CacheFormat::kF32, CacheFormat::kBF16, CacheFormat::kF8};

inline std::size_t area(int a, int b) { return static_cast<std::size_t>(a) * static_cast<std::size_t>(b); }

inline std::vector<float> normals(std::size_t n, std::uint32_t seed, float scale = 1.0F) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0.0F, scale);
  std::vector<float> v(n);
  for (float& x : v) x = normal(engine);
  return v;
}

// The numbers 0..n in some order.
inline std::vector<std::int32_t> shuffled(int n, std::uint32_t seed) {
  std::vector<std::int32_t> result(static_cast<std::size_t>(n));
  for (std::int32_t t = 0; t < n; ++t) result[static_cast<std::size_t>(t)] = t;
  std::shuffle(result.begin(), result.end(), std::mt19937(seed));
  return result;
}

// A plane of the cache, and the values that a kernel reads from it.
struct Plane {
  int width;
  std::size_t value_bytes;
  std::vector<std::byte> bytes;
  std::vector<float> values;  // [slots, width]

  Plane(int slots, int plane_width, CacheFormat format, std::uint32_t seed)
      : width(plane_width),
        value_bytes(format == CacheFormat::kF32    ? 4
                    : format == CacheFormat::kBF16 ? 2
                                                   : 1),
        bytes(area(slots, width) * value_bytes),
        values(normals(area(slots, width), seed)) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::uint16_t half = tensor::float_to_bf16(values[i]);
      const std::uint8_t eighth = tensor::float_to_e4m3(values[i]);
      if (format == CacheFormat::kBF16) values[i] = tensor::bf16_to_float(half);
      if (format == CacheFormat::kF8) values[i] = tensor::e4m3_to_float(eighth);
      const void* code = &values[i];
      if (format == CacheFormat::kBF16) code = &half;
      if (format == CacheFormat::kF8) code = &eighth;
      std::memcpy(&bytes[value_bytes * i], code, value_bytes);
    }
  }

  std::size_t stride() const { return value_bytes * static_cast<std::size_t>(width); }
  double at(std::int32_t slot, int i) const {
    return values[area(slot, width) + static_cast<std::size_t>(i)];
  }
  // Of an F32 plane.
  void set(std::int32_t slot, int i, float value) {
    values[area(slot, width) + static_cast<std::size_t>(i)] = value;
    std::memcpy(&bytes[4 * (area(slot, width) + static_cast<std::size_t>(i))], &value, 4);
  }
};

inline constexpr std::array kClasses{Compute::kFast, Compute::kAccurate};
inline constexpr float kEps = 0x1p-24F;  // half a unit in the last place of fp32, relative

// A row of activations in the groups of a class, padded with zeros as kernels want it.
struct Quantized {
  Compute compute;
  std::vector<std::byte> groups;
  const std::byte* row() const { return groups.data(); }
  // Group g of a row; `low` is zero in the fast class.
  QuantizedGroup<Compute::kAccurate> group(std::size_t g) const {
    QuantizedGroup<Compute::kAccurate> all{};
    if (compute == Compute::kAccurate) {
      std::memcpy(&all, groups.data() + g * sizeof(all), sizeof(all));
      return all;
    }
    QuantizedGroup<Compute::kFast> fast;
    std::memcpy(&fast, groups.data() + g * sizeof(fast), sizeof(fast));
    std::copy_n(fast.values, kGroup, all.values);
    all.correction = fast.correction;
    all.scale = fast.scale;
    return all;
  }
  // The whole number that stands for value i.
  int code(std::size_t i) const {
    const auto g = group(i / kGroup);
    return compute == Compute::kFast ? g.values[i % kGroup] : 128 * g.values[i % kGroup] + g.low[i % kGroup];
  }
};

inline Quantized quantize(const Kernels& kernels, const std::vector<float>& x) {
  const std::size_t padded = (x.size() + kQuantizedPadding - 1) / kQuantizedPadding * kQuantizedPadding;
  Quantized q{kernels.compute, std::vector<std::byte>(padded / kGroup * group_bytes(kernels.compute))};
  std::vector<float> values = x;
  values.resize(padded);
  kernels.quantize(values.data(), static_cast<int>(padded), q.groups.data());
  return q;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](float x, float y) {
           // The payload of a NaN is nobody's promise.
           return (std::isnan(x) && std::isnan(y)) ||
                  std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
         });
}

}  // namespace tagalong::kernels
