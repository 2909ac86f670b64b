#include "nn/rope.h"

#include <cmath>

#include "base/check.h"

namespace tagalong::nn {

RopeAngles::RopeAngles(int dims, double theta, int max_rows) {
  CHECK(dims > 0 && dims % 2 == 0, "{} dims", dims);
  const int half = dims / 2;
  for (int j = 0; j < half; ++j) {
    inverse_frequencies_.push_back(static_cast<float>(1.0 / std::pow(theta, 2.0 * j / dims)));
  }
  cosines_.resize(static_cast<std::size_t>(max_rows) * static_cast<std::size_t>(half));
  sines_.resize(cosines_.size());
}

void RopeAngles::set(std::span<const std::int32_t> positions) {
  const std::size_t half = inverse_frequencies_.size();
  CHECK(positions.size() * half <= cosines_.size(), "{} rows", positions.size());
  for (std::size_t row = 0; row < positions.size(); ++row) {
    for (std::size_t j = 0; j < half; ++j) {
      const float angle = static_cast<float>(positions[row]) * inverse_frequencies_[j];
      cosines_[row * half + j] = static_cast<float>(std::cos(static_cast<double>(angle)));
      sines_[row * half + j] = static_cast<float>(std::sin(static_cast<double>(angle)));
    }
  }
}

void RopeAngles::rotate(int row, RopeStyle style, float* x) const {
  const std::size_t half = inverse_frequencies_.size();
  const float* cosines = cosines_.data() + static_cast<std::size_t>(row) * half;
  const float* sines = sines_.data() + static_cast<std::size_t>(row) * half;
  // Two loops, so that the compiler can make vectors of each.
  const auto turn = [](float& first, float& second, float cosine, float sine) {
    const float a = first;
    const float b = second;
    first = a * cosine - b * sine;
    second = a * sine + b * cosine;
  };
  if (style == RopeStyle::kInterleaved) {
    for (std::size_t j = 0; j < half; ++j) turn(x[2 * j], x[2 * j + 1], cosines[j], sines[j]);
  } else {
    for (std::size_t j = 0; j < half; ++j) turn(x[j], x[j + half], cosines[j], sines[j]);
  }
}

}  // namespace tagalong::nn
