#include "base/aligned_buffer.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

namespace tagalong::base::detail {

namespace {
constexpr std::size_t kHugePage = std::size_t{2} << 20;

// Buffers of so many bytes get huge pages of their own: rows of activations lie further apart than a small
// page is long, and a core remembers few pages.
constexpr std::size_t kLeastHuge = kHugePage / 8;
}  // namespace

void* allocate_aligned(std::size_t bytes) {
  const std::size_t alignment = bytes >= kLeastHuge ? kHugePage : kCacheLine;
  if (bytes > std::numeric_limits<std::size_t>::max() - alignment) throw std::bad_alloc();
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* data = std::aligned_alloc(alignment, rounded);
  if (data == nullptr) throw std::bad_alloc();
  // Advice only: a kernel without huge pages changes nothing but speed.
  if (bytes >= kLeastHuge) madvise(data, rounded, MADV_HUGEPAGE);
  std::memset(data, 0, rounded);
  return data;
}

void free_aligned(void* data) noexcept { std::free(data); }

}  // namespace tagalong::base::detail
