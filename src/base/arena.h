// Memory for many buffers that are made at load and go together: the weights of a model. They lie close, so
// that even small ones share huge pages, and a page becomes resident when it is first written. With several
// crews each has a region of its own, whose pages lie on the crew's node; otherwise they lie on the node of
// the thread that wrote first.
//
// allocate() may be called from any thread. Nothing is given back before the arena goes.
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "base/node_crews.h"

namespace tagalong::base {

// Which pages to ask the kernel for. Advice only: a kernel without huge pages changes nothing but speed.
enum class Pages { kNormal, kHuge };

class Arena {
 public:
  explicit Arena(Pages pages, const NodeCrews& crews = NodeCrews(1));
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Zeroed memory aligned to a cache line, in the region of a crew. Throws std::bad_alloc.
  void* allocate(std::size_t bytes, int crew = 0);

  const NodeCrews& crews() const { return crews_; }

 private:
  struct Chunk {
    std::byte* data;
    std::size_t size;
  };

  struct Region {
    std::vector<Chunk> chunks;  // the last one is being filled
    std::size_t used = 0;       // of it
  };

  const Pages pages_;
  const NodeCrews crews_;
  std::mutex mutex_;
  std::vector<Region> regions_;  // [crews]
};

}  // namespace tagalong::base
