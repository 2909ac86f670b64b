// Which KV blocks are free. A block holds kBlockTokens consecutive positions of one sequence, in every plane
// of the KvStore alike. Used by the engine's thread only; never touches the stored values.
#pragma once

#include <cstdint>
#include <vector>

namespace tagalong::cache {

inline constexpr int kBlockTokens = 16;

class BlockPool {
 public:
  explicit BlockPool(int blocks);

  int capacity() const { return static_cast<int>(held_.size()); }
  int free_blocks() const { return static_cast<int>(free_.size()); }
  // The block last released, or -1 when none is free.
  std::int32_t allocate();
  // `block` must be held.
  void release(std::int32_t block);

 private:
  std::vector<std::int32_t> free_;
  std::vector<bool> held_;
};

// Blocks needed for `tokens` positions.
constexpr int blocks_for(int tokens) { return (tokens + kBlockTokens - 1) / kBlockTokens; }

// The blocks of one sequence in order of position. The engine owns it; the model reads it.
struct BlockTable {
  std::vector<std::int32_t> blocks;

  // Row of every plane that holds `position`, whose block must be present.
  std::int32_t slot(std::int32_t position) const {
    return blocks[static_cast<std::size_t>(position / kBlockTokens)] * kBlockTokens + position % kBlockTokens;
  }
};

}  // namespace tagalong::cache
