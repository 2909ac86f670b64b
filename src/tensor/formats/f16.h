// IEEE binary16, read only.
#pragma once

#include <bit>
#include <cstdint>

namespace tagalong::tensor {

constexpr float f16_to_float(std::uint16_t bits) {
  const std::uint32_t sign = (std::uint32_t{bits} & 0x8000U) << 16;
  const std::uint32_t exponent = (std::uint32_t{bits} >> 10) & 0x1FU;
  const std::uint32_t fraction = std::uint32_t{bits} & 0x3FFU;
  if (exponent == 0) {  // zero and subnormals: fraction * 2^-24, exact in binary32
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return sign != 0 ? -magnitude : magnitude;
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000U | (fraction << 13));
  return std::bit_cast<float>(sign | ((exponent + 112U) << 23) | (fraction << 13));
}

}  // namespace tagalong::tensor
