// NVFP4: e2m1 values (sign, two exponent bits, one fraction bit) in groups of 16 along the input dimension,
// each group with an e4m3 scale, each tensor with an fp32 factor.
//
// w = e2m1(nibble) * e4m3(group scale) * tensor factor. Two values a byte, the even one in the low nibble.
// Source: OCP Microscaling Formats v1.0 (e2m1), OCP 8-bit Floating Point v1.0 (e4m3).
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "tensor/formats/fp8.h"

namespace tagalong::tensor {

inline constexpr int kNvfp4Group = 16;

inline constexpr std::array<float, 8> kE2m1Magnitudes{0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};

// `code` is a nibble; 8 is -0. Without a branch: signs of weights cannot be predicted.
constexpr float e2m1_to_float(unsigned code) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(kE2m1Magnitudes[code & 7U]) | (code & 8U) << 28);
}

// To nearest, ties to even, saturating at 6. NaN becomes 6 with its sign: the format has none.
constexpr unsigned float_to_e2m1(float value) {
  const unsigned sign = (std::bit_cast<std::uint32_t>(value) >> 31) << 3;
  const float x = value < 0 ? -value : value;
  // Midpoints between neighbours; the ones that tie to the code below compare with <=.
  if (x <= 0.25F) return sign | 0U;
  if (x < 0.75F) return sign | 1U;
  if (x <= 1.25F) return sign | 2U;
  if (x < 1.75F) return sign | 3U;
  if (x <= 2.5F) return sign | 4U;
  if (x < 3.5F) return sign | 5U;
  if (x <= 5.0F) return sign | 6U;
  return sign | 7U;
}

}  // namespace tagalong::tensor
