// MXFP4: e2m1 values (nvfp4.h) in groups of 32 along the input dimension, each group with an e8m0 scale.
//
// w = e2m1(nibble) * 2^(scale - 127). Two values a byte, the even one in the low nibble.
// Source: OCP Microscaling Formats v1.0.
#pragma once

#include <cstdint>
#include <limits>

namespace tagalong::tensor {

inline constexpr int kMxfp4Group = 32;
inline constexpr std::uint8_t kE8m0NaN = 0xFF;

constexpr float e8m0_to_float(std::uint8_t bits) {
  if (bits == kE8m0NaN) return std::numeric_limits<float>::quiet_NaN();
  float value = 1;
  for (int e = bits; e > 127; --e) value *= 2;
  for (int e = bits; e < 127; ++e) value /= 2;
  return value;
}

}  // namespace tagalong::tensor
