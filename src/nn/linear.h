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
  explicit Linear(const tensor::WeightView& weight) : weight_(weight) {}

  int inputs() const { return weight_.inputs(); }
  int outputs() const { return weight_.outputs(); }
  std::size_t bytes() const { return weight_.bytes(); }
  bool needs_quantized_rows() const;

  // x: [rows, inputs], y: [rows, outputs], both dense. `scratch` holds at least `rows` rows of `inputs`
  // values if needs_quantized_rows(). Tasks are tiles of outputs; a row's result depends on nothing else.
  void apply(const Context& context, const float* x, int rows, float* y, QuantizedRows& scratch) const;

 private:
  kernels::PackedMatrix weight_;
};

}  // namespace tagalong::nn
