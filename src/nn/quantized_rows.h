// Activation rows as whole numbers with a scale per 16: what quantised weights are multiplied with. Scratch
// memory, made once for the largest batch; different rows may be written from different threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/aligned_buffer.h"
#include "kernels/kernels.h"

namespace tagalong::nn {

class QuantizedRows {
 public:
  QuantizedRows() = default;
  // Rows of up to `width` values.
  QuantizedRows(int rows, int width)
      : stride_((width + kernels::kQuantizedPadding - 1) / kernels::kQuantizedPadding *
                kernels::kQuantizedPadding),
        values_(size(rows, stride_)),
        low_(size(rows, stride_)),
        scales_(size(rows, stride_ / kernels::kGroup)),
        corrections_(size(rows, stride_ / kernels::kGroup)) {}

  int rows() const { return stride_ == 0 ? 0 : static_cast<int>(values_.size()) / stride_; }
  int width() const { return stride_; }

  kernels::QuantizedRow row(int r) const {
    const std::size_t group = size(r, stride_ / kernels::kGroup);
    return {values_.data() + size(r, stride_), low_.data() + size(r, stride_), scales_.data() + group,
            corrections_.data() + group};
  }

  // Quantises x[0..n) to places first.. of row r; first and n are multiples of 16.
  void write(const kernels::Kernels& kernels, int r, int first, const float* x, int n) {
    const std::size_t at = size(r, stride_) + size(first, 1);
    const std::size_t group = at / kernels::kGroup;
    kernels.quantize(
        x, n, {values_.data() + at, low_.data() + at, scales_.data() + group, corrections_.data() + group});
  }

  // Makes places from n to the end of its block zero: a kernel reads whole blocks.
  void pad(int r, int n) {
    const int end =
        (n + kernels::kQuantizedPadding - 1) / kernels::kQuantizedPadding * kernels::kQuantizedPadding;
    for (int i = n; i < end; ++i) values_[size(r, stride_) + i] = low_[size(r, stride_) + i] = 0;
    for (int g = n / kernels::kGroup; g < end / kernels::kGroup; ++g) {
      scales_[size(r, stride_ / kernels::kGroup) + g] = 0;
      corrections_[size(r, stride_ / kernels::kGroup) + g] = 0;
    }
  }

 private:
  static std::size_t size(int a, int b) { return static_cast<std::size_t>(a) * static_cast<std::size_t>(b); }

  int stride_ = 0;
  base::AlignedBuffer<std::int8_t> values_;        // [rows, stride]
  base::AlignedBuffer<std::int8_t> low_;           // [rows, stride], of the accurate class
  base::AlignedBuffer<float> scales_;              // [rows, stride / 16]
  base::AlignedBuffer<std::int32_t> corrections_;  // [rows, stride / 16]
};

}  // namespace tagalong::nn
