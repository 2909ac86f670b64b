#include "nn/tile_deal.h"

#include <algorithm>
#include <vector>

#include "nn/nn_testing.h"

namespace tagalong::nn {
namespace {

// Every tile of every matrix is in one task, of the crew whose share it is, and tasks are in order.
TEST(TileDeal, CutsEachCrewsShareOfEachMatrix) {
  const std::vector<int> tiles{5, 0, 1, 48, 48, 7};
  const int matrices = static_cast<int>(tiles.size());
  for (const auto& workers : kSomeCrews) {
    const base::NodeCrews crews = crews_of(workers);
    for (const int most : {1, 2, 4, 64}) {
      std::vector<TileDeal::Stretch> room(tiles.size() * workers.size());
      TileDeal deal(crews, most, room);
      for (int round = 0; round < 2; ++round) {
        deal.deal(matrices, [&tiles](int m) { return tiles[static_cast<std::size_t>(m)]; });
      }
      ASSERT_EQ(deal.crew_tasks().size(), workers.size() + 1);
      EXPECT_EQ(deal.crew_tasks().back(), deal.tasks());
      int task = 0;
      for (int crew = 0; crew < crews.count(); ++crew) {
        EXPECT_EQ(deal.crew_tasks()[static_cast<std::size_t>(crew)], task);
        for (int m = 0; m < matrices; ++m) {
          const auto [begin, end] = crews.share(tiles[static_cast<std::size_t>(m)], crew);
          for (int tile = begin; tile < end; tile += most, ++task) {
            const auto piece = deal.piece(task);
            EXPECT_EQ(piece.matrix, m);
            EXPECT_EQ(piece.begin, tile);
            EXPECT_EQ(piece.end, std::min(tile + most, end));
          }
        }
      }
      EXPECT_EQ(task, deal.tasks());
    }
  }
}

}  // namespace
}  // namespace tagalong::nn
