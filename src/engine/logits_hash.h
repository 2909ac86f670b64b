// A number that stands for a row of logits, to the last bit: printed beside every measurement, so that two
// runs can be seen to have computed the same.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

namespace tagalong::engine {

// FNV-1a over the bit patterns.
inline std::uint64_t hash_logits(std::span<const float> logits) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const float value : logits) hash = (hash ^ std::bit_cast<std::uint32_t>(value)) * 0x100000001B3ULL;
  return hash;
}

}  // namespace tagalong::engine
