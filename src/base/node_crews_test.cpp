#include "base/node_crews.h"

#include <gtest/gtest.h>

#include <limits>

namespace tagalong::base {
namespace {

using Crews = std::vector<NodeCrews::Crew>;

TEST(NodeCrews, NumberWorkersCrewByCrew) {
  const NodeCrews crews(
      Crews{{.node = 0, .workers = 2}, {.node = 3, .workers = 1}, {.node = 4, .workers = 4}});
  EXPECT_EQ(crews.count(), 3);
  EXPECT_EQ(crews.workers(), 7);
  EXPECT_EQ(crews.node(1), 3);
  EXPECT_EQ(crews.workers_of(2), (Range{3, 7}));
  std::vector<int> crew_of;
  for (int worker = 0; worker < 7; ++worker) crew_of.push_back(crews.crew_of(worker));
  EXPECT_EQ(crew_of, (std::vector<int>{0, 0, 1, 2, 2, 2, 2}));
}

TEST(NodeCrews, ShareEverythingInOrderAndInProportion) {
  for (const Crews& sizes : {Crews{{0, 5}}, Crews{{0, 1}, {1, 1}}, Crews{{0, 3}, {1, 1}, {2, 9}}}) {
    const NodeCrews crews(sizes);
    for (const int total : {0, 1, 2, 7, 48, 1000, std::numeric_limits<int>::max()}) {
      int end = 0;
      for (int crew = 0; crew < crews.count(); ++crew) {
        const Range share = crews.share(total, crew);
        EXPECT_EQ(share.begin, end);
        end = share.end;
        const double fair = 1.0 * total * crews.workers_of(crew).size() / crews.workers();
        EXPECT_NEAR(share.size(), fair, 1.0);
      }
      EXPECT_EQ(end, total);
    }
  }
}

TEST(WorkerPlaces, GiveEachWorkerACoreWhereThereAreAsMany) {
  const std::vector<NumaNode> nodes{{0, {0, 1, 2}}, {1, {3}}};
  const auto [crews, cpus] = place_workers(4, nodes);
  EXPECT_EQ(crews.count(), 2);
  EXPECT_EQ(crews.workers_of(0), (Range{0, 3}));
  EXPECT_EQ(cpus, (std::vector<std::vector<int>>{{0}, {1}, {2}, {3}}));
  EXPECT_EQ(place_workers(2, std::vector<NumaNode>{{0, {0, 5}}}).cpus,
            (std::vector<std::vector<int>>{{0}, {5}}));
}

TEST(WorkerPlaces, SpreadOthersInProportion) {
  const std::vector<NumaNode> nodes{{0, {0, 1, 2, 3}}, {7, {4, 5, 6, 7}}};
  const auto six = place_workers(6, nodes);
  EXPECT_EQ(six.crews.workers_of(1), (Range{3, 6}));
  EXPECT_EQ(six.crews.node(1), 7);
  for (int worker = 0; worker < 6; ++worker) {
    EXPECT_EQ(six.cpus[static_cast<std::size_t>(worker)], nodes[worker < 3 ? 0 : 1].cpus);
  }
  const auto twenty = place_workers(20, nodes);
  EXPECT_EQ(twenty.crews.workers_of(0), (Range{0, 10}));
  EXPECT_EQ(twenty.cpus.size(), 20U);
}

TEST(WorkerPlaces, LeaveAPoolOnOneNodeAlone) {
  const std::vector<NumaNode> one{{0, {0, 1, 2, 3}}};
  const std::vector<NumaNode> two{{0, {0, 1}}, {1, {2, 3}}};
  for (const auto& places : {place_workers(3, one), place_workers(9, one), place_workers(1, two)}) {
    EXPECT_EQ(places.crews.count(), 1);
    EXPECT_TRUE(places.cpus.empty());
  }
}

TEST(WorkerPlaces, TakeMoreNodesThanThereMayBeCrewsForOne) {
  std::vector<NumaNode> nodes;
  for (int i = 0; i <= kMaxCrews; ++i) nodes.push_back({.id = i, .cpus = {i}});
  const auto places = place_workers(kMaxCrews + 1, nodes);
  EXPECT_EQ(places.crews.count(), 1);
  EXPECT_EQ(places.crews.workers(), kMaxCrews + 1);
  EXPECT_EQ(places.cpus.back(), std::vector{kMaxCrews});
}

}  // namespace
}  // namespace tagalong::base
