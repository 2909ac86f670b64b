#include "nn/linear.h"

#include "base/check.h"
#include "nn/tile.h"

namespace tagalong::nn {

bool Linear::needs_quantized_rows() const { return needs_quantized(weight_.format()); }

void Linear::apply(const Context& context, const float* x, int rows, float* y, QuantizedRows& scratch) const {
  const auto inputs = static_cast<std::size_t>(weight_.inputs());
  const bool quantized = needs_quantized_rows();
  if (quantized) {
    CHECK(scratch.rows() >= rows && scratch.width() >= weight_.inputs(), "{} rows of {}", scratch.rows(),
          scratch.width());
    context.pool.run(rows, [&](int r, int) {
      scratch.write(context.kernels, r, 0, x + static_cast<std::size_t>(r) * inputs, weight_.inputs());
      scratch.pad(r, weight_.inputs());
    });
  }
  const StridedRows input{
      .x = x, .stride = inputs, .quantized = quantized ? &scratch : nullptr, .count = rows};
  context.pool.run(weight_.tiles(), [&](int tile, int) {
    multiply_rows(context.kernels, weight_, tile, input, y, static_cast<std::size_t>(weight_.outputs()));
  });
}

}  // namespace tagalong::nn
