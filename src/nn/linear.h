// A linear layer without bias: y = x W^T. Immutable after construction.
#pragma once

#include <span>

#include "kernels/packed_matrix.h"
#include "nn/context.h"
#include "nn/quantized_rows.h"
#include "tensor/weight_view.h"

namespace tagalong::nn {

class Linear {
 public:
  Linear() = default;
  explicit Linear(const tensor::WeightView& weight, const kernels::Packing& packing = {})
      : weight_(weight, packing) {}

  int inputs() const { return weight_.inputs(); }
  int outputs() const { return weight_.outputs(); }
  std::size_t bytes() const { return weight_.bytes(); }
  std::size_t products() const {  // of one row
    return static_cast<std::size_t>(inputs()) * static_cast<std::size_t>(outputs());
  }
  bool needs_quantized_rows() const;

  // x: [rows, inputs], y: [rows, outputs], both dense. `scratch` holds at least `rows` rows of `inputs`
  // values if needs_quantized_rows(). Tasks are tiles of outputs; a row's result depends on nothing else.
  void apply(const Context& context, const float* x, int rows, float* y, QuantizedRows& scratch) const;

  struct Product;
  static constexpr int kMostTogether = 8;
  // One to kMostTogether layers of the same inputs applied to the same rows: one pass over x, one parallel
  // loop.
  static void apply_together(const Context& context, std::span<const Product> products, const float* x,
                             int rows, QuantizedRows& scratch);

 private:
  kernels::PackedMatrix weight_;
};

// One of the layers of apply_together and where its result goes, [rows, outputs].
struct Linear::Product {
  const Linear& layer;
  float* y;
};

}  // namespace tagalong::nn
