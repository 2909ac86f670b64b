// bfloat16: the upper half of an IEEE binary32.
#pragma once

#include <bit>
#include <cstdint>

namespace tagalong::tensor {

constexpr float bf16_to_float(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

// To nearest, ties to even; NaN stays NaN (quiet), overflow becomes infinity. Without a branch, so that loops
// over it become vectors.
constexpr std::uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const bool nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
  const std::uint32_t rounded = bits + 0x7FFFU + ((bits >> 16) & 1U);
  return static_cast<std::uint16_t>((nan ? bits | 0x400000U : rounded) >> 16);
}

}  // namespace tagalong::tensor
