// The merges of a byte-pair encoding: (left id, right id) -> (rank, merged id).
//
// Filled once while a tokenizer is loaded, then immutable: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tagalong::tokenizer {

struct Merge {
  std::uint32_t rank;  // position in the list; the lowest is merged first
  std::int32_t id;
};

class MergeTable {
 public:
  explicit MergeTable(std::size_t expected = 0) {
    std::size_t capacity = 16;
    while (capacity < 2 * expected) capacity *= 2;
    slots_.resize(capacity);
  }

  // A pair that comes twice keeps its later rank, as in the reference. At most `expected` pairs.
  void add(std::int32_t left, std::int32_t right, Merge merge) {
    Slot& slot = slots_[position(key_of(left, right))];
    slot.key = key_of(left, right);
    slot.merge = merge;
  }

  // Null if the two do not merge.
  const Merge* find(std::int32_t left, std::int32_t right) const {
    const Slot& slot = slots_[position(key_of(left, right))];
    return slot.key == kNone ? nullptr : &slot.merge;
  }

 private:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t key = kNone;
    Merge merge{};
  };

  static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
           static_cast<std::uint32_t>(right);
  }
  // The slot of the key, or the empty one where it belongs.
  std::size_t position(std::uint64_t key) const {
    const std::size_t mask = slots_.size() - 1;
    std::uint64_t hash = key * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 32;
    std::size_t at = hash & mask;
    while (slots_[at].key != key && slots_[at].key != kNone) at = (at + 1) & mask;
    return at;
  }

  std::vector<Slot> slots_;  // a power of two, at most half full
};

}  // namespace tagalong::tokenizer
