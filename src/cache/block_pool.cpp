#include "cache/block_pool.h"

#include "base/check.h"

namespace tagalong::cache {

BlockPool::BlockPool(int blocks) : held_(static_cast<std::size_t>(blocks), false) {
  CHECK(blocks >= 0, "{} blocks", blocks);
  free_.reserve(held_.size());
  for (std::int32_t block = blocks - 1; block >= 0; --block) free_.push_back(block);
}

std::int32_t BlockPool::allocate() {
  if (free_.empty()) return -1;
  const std::int32_t block = free_.back();
  free_.pop_back();
  held_[static_cast<std::size_t>(block)] = true;
  return block;
}

void BlockPool::release(std::int32_t block) {
  CHECK(block >= 0 && block < capacity() && held_[static_cast<std::size_t>(block)], "block {} of {}", block,
        capacity());
  held_[static_cast<std::size_t>(block)] = false;
  free_.push_back(block);
}

}  // namespace tagalong::cache
