// A set of expert ids as packed bits in words that somebody else owns. Plain functions, nothing allocated.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tagalong::routing {

using ExpertSet = std::span<std::uint64_t>;
using ConstExpertSet = std::span<const std::uint64_t>;

// Words for ids 0 .. experts - 1, rounded up to whole 64-byte lines so that vector code may read past the
// end.
constexpr std::size_t expert_set_words(int experts) {
  return (static_cast<std::size_t>(experts) + 511) / 512 * 8;
}

inline bool contains(ConstExpertSet set, int id) {
  return ((set[static_cast<std::size_t>(id) / 64] >> (id % 64)) & 1U) != 0;
}

inline void insert(ExpertSet set, int id) {
  set[static_cast<std::size_t>(id) / 64] |= std::uint64_t{1} << (id % 64);
}

inline void erase(ExpertSet set, int id) {
  set[static_cast<std::size_t>(id) / 64] &= ~(std::uint64_t{1} << (id % 64));
}

inline void clear(ExpertSet set) {
  for (std::uint64_t& word : set) word = 0;
}

inline int count(ConstExpertSet set) {
  int n = 0;
  for (const std::uint64_t word : set) n += std::popcount(word);
  return n;
}

// body(id) for each member, ascending.
template <typename Body>
void for_each_expert(ConstExpertSet set, Body&& body) {
  for (std::size_t w = 0; w < set.size(); ++w) {
    for (std::uint64_t rest = set[w]; rest != 0; rest &= rest - 1) {
      body(static_cast<int>(w * 64) + std::countr_zero(rest));
    }
  }
}

}  // namespace tagalong::routing
