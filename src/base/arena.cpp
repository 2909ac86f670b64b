#include "base/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <limits>
#include <new>

#include "base/aligned_buffer.h"
#include "base/numa.h"

namespace tagalong::base {

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
// Address space only: what is not used is never resident. Large, so that little is lost where one ends.
constexpr std::size_t kChunk = std::size_t{1} << 28;

std::size_t round_up(std::size_t bytes, std::size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

}  // namespace

Arena::Arena(Pages pages, const NodeCrews& crews)
    : pages_(pages), crews_(crews), regions_(static_cast<std::size_t>(crews.count())) {}

Arena::~Arena() {
  for (const Region& region : regions_) {
    for (const Chunk& chunk : region.chunks) munmap(chunk.data, chunk.size);
  }
}

void* Arena::allocate(std::size_t bytes, int crew) {
  if (bytes > std::numeric_limits<std::size_t>::max() / 2) throw std::bad_alloc();
  const std::size_t rounded = round_up(bytes, kCacheLine);
  const std::lock_guard lock(mutex_);
  auto& [chunks, used] = regions_[static_cast<std::size_t>(crew)];
  if (chunks.empty() || chunks.back().size - used < rounded) {
    const std::size_t size = round_up(std::max(rounded, kChunk), kHugePage);
    chunks.reserve(chunks.size() + 1);
    void* data =
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) throw std::bad_alloc();
    madvise(data, size, pages_ == Pages::kHuge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    // Advice too: who made the crews has found out whether it is taken.
    if (crews_.count() > 1) prefer_node(data, size, crews_.node(crew));
    chunks.push_back({static_cast<std::byte*>(data), size});
    used = 0;
  }
  std::byte* const start = chunks.back().data + used;
  used += rounded;
  return start;
}

}  // namespace tagalong::base
