// Scalar forms of what the vector kernels do lane by lane. Together with scalar.cpp the definition of every
// kernel's result.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/kernels.h"

namespace tagalong::kernels::scalar {

template <typename T>
T load(const std::byte* data, std::size_t index) {
  T value;
  std::memcpy(&value, data + index * sizeof(T), sizeof(T));
  return value;
}

// x86's max: the second operand when either is NaN.
inline float max_of(float a, float b) { return a > b ? a : b; }
inline float min_of(float a, float b) { return a < b ? a : b; }

// Sixteen running values and the tree that folds them: lane i with i + 8, then 4, 2, 1.
struct Lanes {
  std::array<float, kLanes> v{};

  void fma(const float* a, const float* b) {
    for (int i = 0; i < kLanes; ++i) v[i] = std::fma(a[i], b[i], v[i]);
  }
  float sum() const {
    return folded([](float a, float b) { return a + b; });
  }
  float largest() const { return folded(max_of); }

 private:
  template <typename Combine>
  float folded(Combine combine) const {
    std::array<float, kLanes> s = v;
    for (int width = kLanes / 2; width > 0; width /= 2) {
      for (int i = 0; i < width; ++i) s[i] = combine(s[i], s[i + width]);
    }
    return s[0];
  }
};

// e^x to about two units in the last place: x = n ln2 + r, |r| <= ln2 / 2, a polynomial of degree 7 in r.
// Arguments are limited to the range of normal results; NaN stays NaN.
// Source of the coefficients: S. Moshier, Cephes mathematical library, expf.
inline float exp_approx(float x) {
  const float limited = min_of(88.0F, max_of(-87.0F, x));
  const float n = std::nearbyint(limited * 1.44269504088896341F);
  float r = std::fma(n, -0.693359375F, limited);
  r = std::fma(n, 2.12194440e-4F, r);
  float p = 1.9875691500e-4F;
  p = std::fma(p, r, 1.3981999507e-3F);
  p = std::fma(p, r, 8.3334519073e-3F);
  p = std::fma(p, r, 4.1665795894e-2F);
  p = std::fma(p, r, 1.6666665459e-1F);
  p = std::fma(p, r, 5.0000001201e-1F);
  p = std::fma(p, r * r, r) + 1.0F;
  if (std::isnan(n)) return n;
  return p * std::bit_cast<float>((static_cast<std::int32_t>(n) + 127) << 23);
}

}  // namespace tagalong::kernels::scalar
