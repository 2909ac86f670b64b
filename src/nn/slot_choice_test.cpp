#include "nn/slot_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "nn/nn_testing.h"

namespace tagalong::nn {
namespace {

// The same by sorting: NaN last, greater first, earlier first.
std::vector<std::int32_t> sorted_choice(const std::vector<float>& scores, int k) {
  std::vector<std::int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    const float x = scores[static_cast<std::size_t>(a)];
    const float y = scores[static_cast<std::size_t>(b)];
    if (std::isnan(x) || std::isnan(y)) return !std::isnan(x) && std::isnan(y);
    return x > y;
  });
  order.resize(static_cast<std::size_t>(k));
  std::sort(order.begin(), order.end());
  return order;
}

TEST(SlotChoice, AgreesWithSortingOverTiesInfinitiesAndNaN) {
  std::mt19937 engine(1);
  for (int round = 0; round < 200; ++round) {
    const int count = 1 + static_cast<int>(engine() % 300);
    const int k = 1 + static_cast<int>(engine() % static_cast<std::uint32_t>(count));
    auto scores = normals(static_cast<std::size_t>(count), static_cast<std::uint32_t>(engine()),
                          round % 2 == 0 ? 1.0F : 1e-3F);
    for (float& s : scores) {
      const auto pick = engine() % 16;
      if (round % 3 == 0) s = std::round(s * 2) + 0.0F;  // many ties
      if (pick == 0) s = std::numeric_limits<float>::infinity();
      if (pick == 1) s = -std::numeric_limits<float>::infinity();
      if (pick == 2) s = std::nanf("");
    }
    std::vector<std::int32_t> slots(scores.size());
    for (std::size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<std::int32_t>(7 * i + 3);
    std::vector<std::int32_t> chosen(static_cast<std::size_t>(k) + 1, -1);
    choose_slots(scores.data(), count, k, slots.data(), chosen.data());
    EXPECT_EQ(chosen.back(), -1) << "wrote past k";
    chosen.pop_back();
    auto expected = sorted_choice(scores, k);
    for (std::int32_t& position : expected) position = 7 * position + 3;
    EXPECT_EQ(chosen, expected) << "round " << round << ", " << k << " of " << count;
  }
}

}  // namespace
}  // namespace tagalong::nn
