#include "nn/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <vector>

namespace tagalong::nn {
namespace {

// The rotation of pair (a, b) as a product of complex numbers.
std::complex<double> rotated(double a, double b, int position, int j, int dims, double theta) {
  const double angle = position / std::pow(theta, 2.0 * j / dims);
  return std::complex<double>(a, b) * std::polar(1.0, angle);
}

TEST(Rope, RotatesPairsAsComplexNumbers) {
  constexpr int kDims = 8;
  RopeAngles angles(kDims, 10000.0, 3);
  const std::vector<std::int32_t> positions{0, 1, 500};
  angles.set(positions);
  for (int row = 0; row < 3; ++row) {
    for (const RopeStyle style : {RopeStyle::kInterleaved, RopeStyle::kHalfSplit}) {
      std::vector<float> x{1, -2, 3, -4, 5, -6, 7, -8};
      const std::vector<float> before = x;
      angles.rotate(row, style, x.data());
      for (int j = 0; j < kDims / 2; ++j) {
        const int first = style == RopeStyle::kInterleaved ? 2 * j : j;
        const int second = style == RopeStyle::kInterleaved ? 2 * j + 1 : j + kDims / 2;
        const auto expected = rotated(before[first], before[second], positions[row], j, kDims, 10000.0);
        // The angle is an fp32 number near `position`; its rounding moves a vector of length 11 that far.
        const double bound = 11 * (positions[row] + 2) * 0x1p-23;
        EXPECT_NEAR(x[first], expected.real(), bound);
        EXPECT_NEAR(x[second], expected.imag(), bound);
      }
    }
  }
}

TEST(Rope, ScoresDependOnTheDistanceOnly) {
  RopeAngles angles(4, 100.0, 4);
  const std::vector<std::int32_t> positions{3, 10, 23, 30};
  angles.set(positions);
  const auto score = [&](int query_row, int key_row) {
    std::vector<float> q{0.3F, -1, 2, 0.5F};
    std::vector<float> k{1, 0.25F, -0.5F, 2};
    angles.rotate(query_row, RopeStyle::kInterleaved, q.data());
    angles.rotate(key_row, RopeStyle::kInterleaved, k.data());
    float sum = 0;
    for (int i = 0; i < 4; ++i) sum += q[i] * k[i];
    return sum;
  };
  EXPECT_NEAR(score(1, 0), score(3, 2), 1e-5);
  EXPECT_GT(std::fabs(score(1, 0) - score(2, 0)), 1e-2);
}

}  // namespace
}  // namespace tagalong::nn
