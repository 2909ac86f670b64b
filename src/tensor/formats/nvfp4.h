// NVFP4: e2m1 values (sign, two exponent bits, one fraction bit) in groups of 16 along the input dimension,
// each group with an e4m3 scale, each tensor with an fp32 factor.
//
// w = e2m1(nibble) * e4m3(group scale) * tensor factor. Two values a byte, the even one in the low nibble.
// Source: OCP Microscaling Formats v1.0 (e2m1), OCP 8-bit Floating Point v1.0 (e4m3).
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <limits>

namespace tagalong::tensor {

inline constexpr int kNvfp4Group = 16;

inline constexpr std::array<float, 8> kE2m1Magnitudes{0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};

// `code` is a nibble; 8 is -0.
constexpr float e2m1_to_float(unsigned code) {
  const float magnitude = kE2m1Magnitudes[code & 7U];
  return (code & 8U) != 0 ? -magnitude : magnitude;
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
