#include "nn/load_order.h"

#include <gtest/gtest.h>

#include <vector>

namespace tagalong::nn {
namespace {

std::vector<int> arranged(const std::vector<int>& rows, int workers) {
  const int count = static_cast<int>(rows.size());
  LoadOrder order(count + 3);
  order.arrange(count, workers, [&](int m) { return rows[m]; });
  std::vector<int> places;
  for (int place = 0; place < count; ++place) places.push_back(order[place]);
  return places;
}

TEST(LoadOrder, OneWorkerGoesFromFewRowsToManyAndKeepsTheOrderOfEquals) {
  EXPECT_EQ(arranged({3, 1, 2, 1}, 1), (std::vector<int>{1, 3, 2, 0}));
}

TEST(LoadOrder, EveryOtherWorkerGoesBackwards) {
  // Sorted: 5 (1 row), 1 (2), 3 (3), 0 (4), 4 (5), 2 (9).
  EXPECT_EQ(arranged({4, 2, 9, 3, 5, 1}, 2), (std::vector<int>{5, 3, 4, 2, 0, 1}));
  EXPECT_EQ(arranged({4, 2, 9, 3, 5, 1}, 3), (std::vector<int>{5, 0, 4, 1, 3, 2}));
}

TEST(LoadOrder, MoreWorkersThanMatrices) {
  EXPECT_EQ(arranged({2, 1}, 5), (std::vector<int>{1, 0}));
  EXPECT_EQ(arranged({}, 5), std::vector<int>{});
}

TEST(LoadOrder, IsMadeAnewForEachPass) {
  LoadOrder order(4);
  order.arrange(4, 1, [](int m) { return 4 - m; });
  EXPECT_EQ(order[0], 3);
  order.arrange(2, 1, [](int m) { return m; });
  EXPECT_EQ(order[0], 0);
  EXPECT_EQ(order[1], 1);
}

}  // namespace
}  // namespace tagalong::nn
