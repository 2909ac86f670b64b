// Memory for many buffers that are made at load and go together: the weights of a model. They lie close, so
// that even small ones share huge pages, and a page becomes resident when it is first written, on the node of
// the thread that does it.
//
// allocate() may be called from any thread. Nothing is given back before the arena goes.
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

namespace tagalong::base {

// Which pages to ask the kernel for. Advice only: a kernel without huge pages changes nothing but speed.
enum class Pages { kNormal, kHuge };

class Arena {
 public:
  explicit Arena(Pages pages) : pages_(pages) {}
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Zeroed memory aligned to a cache line. Throws std::bad_alloc.
  void* allocate(std::size_t bytes);

 private:
  struct Chunk {
    std::byte* data;
    std::size_t size;
  };

  const Pages pages_;
  std::mutex mutex_;
  std::vector<Chunk> chunks_;  // the last one is being filled
  std::size_t used_ = 0;       // of it
};

}  // namespace tagalong::base
