// The straight line of least squares through some points.
#pragma once

#include <span>

#include "base/check.h"

namespace tagalong::tools {

struct LineFit {
  double intercept = 0;
  double slope = 0;
  double r_squared = 0;  // share of the variance of y that the line explains
};

// x and y of equal length, at least two distinct x.
inline LineFit fit_line(std::span<const double> x, std::span<const double> y) {
  CHECK(x.size() == y.size() && x.size() >= 2, "{} and {} values", x.size(), y.size());
  const auto n = static_cast<double>(x.size());
  double mean_x = 0;
  double mean_y = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    mean_x += x[i] / n;
    mean_y += y[i] / n;
  }
  double xx = 0;
  double xy = 0;
  double yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mean_x) * (x[i] - mean_x);
    xy += (x[i] - mean_x) * (y[i] - mean_y);
    yy += (y[i] - mean_y) * (y[i] - mean_y);
  }
  CHECK(xx > 0, "all x are {}", mean_x);
  const double slope = xy / xx;
  return {
      .intercept = mean_y - slope * mean_x, .slope = slope, .r_squared = yy > 0 ? xy * xy / (xx * yy) : 1.0};
}

}  // namespace tagalong::tools
