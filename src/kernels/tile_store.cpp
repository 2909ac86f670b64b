#include "kernels/tile_store.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tagalong::kernels {

TileStore::TileStore(int tiles, std::size_t tile_bytes, std::span<const std::size_t> behind,
                     const std::shared_ptr<base::Arena>& arena)
    : tile_bytes_(tile_bytes) {
  if (std::any_of(behind.begin(), behind.end(), [](std::size_t bytes) { return bytes > 0; })) {
    behind_.push_back(0);
    for (const std::size_t bytes : behind) behind_.push_back(behind_.back() + bytes);
  }
  bytes_ = offset(tiles);
  const int crews = arena == nullptr ? 1 : arena->crews().count();
  for (int crew = 0; crew < crews; ++crew) {
    const auto [begin, end] = arena == nullptr ? base::Range{0, tiles} : arena->crews().share(tiles, crew);
    base::AlignedBuffer<std::byte> data(offset(end) - offset(begin), arena, crew);
    Part part{.data = std::move(data), .begin = begin, .end = end};
    if (crew == 0) {
      first_ = std::move(part);
    } else {
      later_.push_back(std::move(part));
    }
  }
}

const std::byte* TileStore::later_tile(int index) const {
  const auto part =
      std::find_if(later_.begin(), later_.end(), [index](const Part& p) { return index < p.end; });
  CHECK(part != later_.end(), "tile {}", index);
  return part->data.data() + (offset(index) - offset(part->begin));
}

}  // namespace tagalong::kernels
