// FP8 e4m3: sign, four exponent bits, three fraction bits. A weight in it has fp32 factors: one for the
// tensor, one for each output, or one for each block of 128 x 128.
//
// Source: OCP 8-bit Floating Point Specification v1.0 (e4m3).
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace tagalong::tensor {

inline constexpr int kFp8Block = 128;  // side of a block that shares a factor

// 0x7F and 0xFF are NaN; there is no infinity; the largest value is 448, the smallest 2^-9.
constexpr float e4m3_to_float(std::uint8_t bits) {
  const unsigned exponent = (bits >> 3) & 0xFU;
  const unsigned fraction = bits & 7U;
  if ((bits & 0x7FU) == 0x7FU) return std::numeric_limits<float>::quiet_NaN();
  const float magnitude = exponent == 0 ? static_cast<float>(fraction) * 0x1p-9F
                                        : std::bit_cast<float>(((exponent + 120U) << 23) | (fraction << 20));
  return (bits & 0x80U) != 0 ? -magnitude : magnitude;
}

// To nearest, ties to even, saturating at 448 (the format has no infinity); NaN becomes 0x7F.
constexpr std::uint8_t float_to_e4m3(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint8_t>((bits >> 24) & 0x80U);
  const float x = std::bit_cast<float>(bits & 0x7FFFFFFFU);
  if (x != x) return static_cast<std::uint8_t>(sign | 0x7FU);
  if (x >= 448.0F) return static_cast<std::uint8_t>(sign | 0x7EU);
  if (x < 0x1p-6F) {  // subnormal: a multiple of 2^-9; adding 2^14 leaves units of 2^-9, rounded to even
    const float shifted = x + 0x1p14F;
    return static_cast<std::uint8_t>(sign | (std::bit_cast<std::uint32_t>(shifted) & 0xFU));
  }
  const auto magnitude = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t rounded = magnitude + 0x7FFFFU + ((magnitude >> 20) & 1U);
  const std::uint32_t code = (rounded >> 20) - (120U << 3);
  return static_cast<std::uint8_t>(sign | (code > 0x7EU ? 0x7EU : code));
}

}  // namespace tagalong::tensor
