// SplitMix64: well-mixed 64-bit numbers from a seed, the same everywhere and for ever. Not for secrets.
// Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014.
#pragma once

#include <cstdint>

namespace tagalong::base {

// By which the state advances with each number.
inline constexpr std::uint64_t kSplitMixStep = 0x9E3779B97F4A7C15U;

// The number that belongs to a state.
constexpr std::uint64_t split_mix(std::uint64_t state) {
  state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9U;
  state = (state ^ (state >> 27)) * 0x94D049BB133111EBU;
  return state ^ (state >> 31);
}

class SplitMix64 {
 public:
  explicit SplitMix64(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() { return split_mix(state_ += kSplitMixStep); }

 private:
  std::uint64_t state_;
};

}  // namespace tagalong::base
