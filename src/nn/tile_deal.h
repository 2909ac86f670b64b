// How the tiles of some matrices become tasks that each lie on one NUMA node.
//
// Of every matrix, a crew gets the tiles that NodeCrews::share gives it, where an arena made for the same
// crews puts them; a crew's tasks are consecutive, matrix by matrix. With one crew that is all tiles in
// order. Made anew for a pass by the caller's thread, then read by any; allocates nothing.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "base/node_crews.h"

namespace tagalong::nn {

class TileDeal {
 public:
  // Tiles from begin to before end of one matrix.
  struct Piece {
    int matrix;
    int begin;
    int end;
  };
  // The tiles of a matrix that lie on a node, and the first task that has some of them.
  struct Stretch {
    int first_task;
    Piece tiles;
  };

  // `most`: tiles of a task; room: [crews * matrices] at least, used as long as this is.
  TileDeal(const base::NodeCrews& crews, int most, std::span<Stretch> room)
      : crews_(crews), most_(most), room_(room) {}

  // Deals matrices that have tiles_of(0), tiles_of(1), ... tiles.
  template <typename TilesOf>
  void deal(int matrices, const TilesOf& tiles_of) {
    start(matrices);
    for (int crew = 0; crew < crews_.count(); ++crew) {
      base::Range share{0, 0};
      for (int m = 0, known = 0; m < matrices; ++m) {
        const int tiles = tiles_of(m);
        if (tiles != known) share = crews_.share(tiles, crew);  // two divisions, and experts are mostly alike
        known = tiles;
        add(m, share);
      }
      crew_tasks_[static_cast<std::size_t>(crew) + 1] = tasks_;
    }
  }

  int tasks() const { return tasks_; }
  // [crews + 1], as a pool's phase takes them.
  std::span<const int> crew_tasks() const {
    return std::span(crew_tasks_).first(static_cast<std::size_t>(crews_.count()) + 1);
  }
  // The tiles of a task: at most `most`, and at least one.
  Piece piece(int task) const;

 private:
  void start(int matrices);
  void add(int matrix, base::Range share);

  const base::NodeCrews& crews_;
  int most_;
  std::span<Stretch> room_;
  int used_ = 0;  // of room_
  int tasks_ = 0;
  std::array<int, base::kMaxCrews + 1> crew_tasks_;
};

}  // namespace tagalong::nn
