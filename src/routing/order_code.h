// Keys as unsigned integers that compare the way routing ranks: larger is better, NaN is below every number,
// -0 equals +0, and what a row may not use is below NaN. Plain functions.
//
// Comparing codes instead of floats makes the order total, so every instruction set agrees on it.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace tagalong::routing {

inline constexpr std::uint32_t kMaskedCode = 0;
inline constexpr std::uint32_t kNanCode = 1;

inline std::uint32_t order_code(float key) {
  if (std::isnan(key)) return kNanCode;
  const auto bits = std::bit_cast<std::uint32_t>(key + 0.0F);  // -0 + 0 = +0
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
}

// The key of a code; NaN and masked become -infinity, which is what a group's score wants of them.
inline float key_of(std::uint32_t code) {
  if (code <= kNanCode) return -std::numeric_limits<float>::infinity();
  return std::bit_cast<float>((code >> 31) != 0 ? code & 0x7fffffffU : ~code);
}

}  // namespace tagalong::routing
