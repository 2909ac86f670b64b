// The extents of a tensor, outermost first, at most four.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "base/check.h"

namespace tagalong::tensor {

inline constexpr std::size_t kMaxRank = 4;

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents) : Shape(std::span(extents.begin(), extents.size())) {}
  explicit Shape(std::span<const std::int64_t> extents) : rank_(extents.size()) {
    CHECK(rank_ <= kMaxRank, "rank {}", rank_);
    for (std::size_t i = 0; i < rank_; ++i) extents_[i] = extents[i];
  }

  std::size_t rank() const { return rank_; }
  std::int64_t operator[](std::size_t i) const { return extents_[i]; }
  std::span<const std::int64_t> extents() const { return {extents_.data(), rank_}; }
  // Product of the extents: 1 for a scalar. The extents were checked against overflow where they were read.
  std::int64_t elements() const {
    std::int64_t product = 1;
    for (std::size_t i = 0; i < rank_; ++i) product *= extents_[i];
    return product;
  }
  bool operator==(const Shape&) const = default;

 private:
  std::array<std::int64_t, kMaxRank> extents_{};
  std::size_t rank_ = 0;
};

// "[64, 192]", "[]" for a scalar.
inline std::string to_string(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape.extents().begin(), shape.extents().end(), ", "));
}

}  // namespace tagalong::tensor
