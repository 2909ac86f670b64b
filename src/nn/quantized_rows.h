// Activation rows as whole numbers with a scale per 16: what quantised weights are multiplied with. Scratch
// memory, made once for the largest batch; different rows may be written from different threads.
#pragma once

#include <array>
#include <cstddef>

#include "base/aligned_buffer.h"
#include "kernels/kernels.h"

namespace tagalong::nn {

class QuantizedRows {
 public:
  QuantizedRows() = default;
  // Rows of up to `width` values, of either class.
  QuantizedRows(int rows, int width)
      : width_(padded(width)),
        stride_(static_cast<std::size_t>(width_ / kernels::kGroup) *
                kernels::group_bytes(kernels::Compute::kAccurate)),
        groups_(static_cast<std::size_t>(rows) * stride_) {}

  int rows() const { return stride_ == 0 ? 0 : static_cast<int>(groups_.size() / stride_); }
  int width() const { return width_; }

  const std::byte* row(int r) const { return groups_.data() + static_cast<std::size_t>(r) * stride_; }

  // The group of places first.. + 16 of row r, where a kernel may write it; first is a multiple of 16.
  std::byte* place(const kernels::Kernels& kernels, int r, int first) {
    return groups_.data() + static_cast<std::size_t>(r) * stride_ +
           static_cast<std::size_t>(first / kernels::kGroup) * kernels::group_bytes(kernels.compute);
  }

  // Quantises x[0..n) to places first.. of row r; first and n are multiples of 16.
  void write(const kernels::Kernels& kernels, int r, int first, const float* x, int n) {
    kernels.quantize(x, n, place(kernels, r, first));
  }

  // Makes places from n, a multiple of 16, to the end of its block zero: a kernel reads whole blocks.
  void pad(const kernels::Kernels& kernels, int r, int n) {
    static constexpr std::array<float, kernels::kQuantizedPadding> kZeros{};
    if (n < padded(n)) write(kernels, r, n, kZeros.data(), padded(n) - n);
  }

 private:
  static int padded(int width) {
    return (width + kernels::kQuantizedPadding - 1) / kernels::kQuantizedPadding * kernels::kQuantizedPadding;
  }
  int width_ = 0;
  std::size_t stride_ = 0;                 // bytes of a row
  base::AlignedBuffer<std::byte> groups_;  // [rows, stride]
};

}  // namespace tagalong::nn
