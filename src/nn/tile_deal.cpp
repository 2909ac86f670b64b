#include "nn/tile_deal.h"

#include <algorithm>

#include "base/check.h"
#include "base/range.h"

namespace tagalong::nn {

void TileDeal::start(int matrices) {
  CHECK(room_.size() >= static_cast<std::size_t>(crews_.count()) * static_cast<std::size_t>(matrices),
        "{} crews, {} matrices, room for {} stretches", crews_.count(), matrices, room_.size());
  used_ = 0;
  tasks_ = 0;
  crew_tasks_[0] = 0;
}

void TileDeal::add(int matrix, base::Range share) {
  if (share.size() == 0) return;
  room_[static_cast<std::size_t>(used_++)] = {tasks_, {matrix, share.begin, share.end}};
  tasks_ += base::pieces_of(share.size(), most_);
}

TileDeal::Piece TileDeal::piece(int task) const {
  const auto stretches = room_.first(static_cast<std::size_t>(used_));
  const auto after = std::upper_bound(stretches.begin(), stretches.end(), task,
                                      [](int t, const Stretch& stretch) { return t < stretch.first_task; });
  const auto& [first_task, tiles] = *(after - 1);
  const int begin = tiles.begin + (task - first_task) * most_;
  return {tiles.matrix, begin, std::min(begin + most_, tiles.end)};
}

}  // namespace tagalong::nn
