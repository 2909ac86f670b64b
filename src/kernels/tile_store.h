// The memory of a packed matrix: its tiles in order, in as many parts as its arena has crews, each part on
// the node of the crew whose share of the tiles it is. Within a part tiles are dense, each followed by what
// its blocks refer to.
//
// Parts rather than one buffer whose pages are bound one by one: an expert's tiles of a node are smaller than
// a huge page, so the parts of many experts share one in the region of their node, and the kernel keeps one
// mapping for a region instead of one for each matrix and node.
//
// Filled by whoever packs, then any thread may read.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/arena.h"

namespace tagalong::kernels {

class TileStore {
 public:
  TileStore() = default;
  // Zeroed tiles of tile_bytes each, and behind tile t behind[t] bytes more; nothing if `behind` is empty.
  // Without an arena in one part of its own memory.
  TileStore(int tiles, std::size_t tile_bytes, std::span<const std::size_t> behind,
            const std::shared_ptr<base::Arena>& arena);

  const std::byte* tile(int index) const {
    // Matrices in one part are the rule, and need no look at the others.
    return index < first_.end ? first_.data.data() + offset(index) : later_tile(index);
  }
  std::byte* tile(int index) { return const_cast<std::byte*>(std::as_const(*this).tile(index)); }
  std::size_t tile_bytes() const { return tile_bytes_; }  // without what lies behind
  std::size_t bytes() const { return bytes_; }            // with it

 private:
  struct Part {
    base::AlignedBuffer<std::byte> data;
    int begin = 0;
    int end = 0;
  };

  // Bytes of all tiles before one.
  std::size_t offset(int index) const {
    const std::size_t blocks = static_cast<std::size_t>(index) * tile_bytes_;
    return behind_.empty() ? blocks : blocks + behind_[index];
  }
  const std::byte* later_tile(int index) const;

  std::size_t tile_bytes_ = 0;
  std::size_t bytes_ = 0;
  std::vector<std::size_t> behind_;  // [tiles + 1] bytes behind all tiles before one; empty: none at all
  Part first_;
  std::vector<Part> later_;
};

}  // namespace tagalong::kernels
