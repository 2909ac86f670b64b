#include "kernels/tile_store.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tagalong::kernels {

TileStore::TileStore(int tiles, std::size_t tile_bytes, const std::shared_ptr<base::Arena>& arena)
    : tile_bytes_(tile_bytes), bytes_(static_cast<std::size_t>(tiles) * tile_bytes) {
  const int crews = arena == nullptr ? 1 : arena->crews().count();
  for (int crew = 0; crew < crews; ++crew) {
    const auto [begin, end] = arena == nullptr ? base::Range{0, tiles} : arena->crews().share(tiles, crew);
    base::AlignedBuffer<std::byte> data(static_cast<std::size_t>(end - begin) * tile_bytes, arena, crew);
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
  return part->data.data() + static_cast<std::size_t>(index - part->begin) * tile_bytes_;
}

}  // namespace tagalong::kernels
