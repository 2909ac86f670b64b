#include "nn/linear.h"

#include "base/check.h"
#include "nn/tile.h"

namespace tagalong::nn {

bool Linear::needs_quantized_rows() const { return needs_quantized(weight_.format()); }

void Linear::apply(const Context& context, const float* x, int rows, float* y, QuantizedRows& scratch) const {
  const Product product{*this, y};
  apply_together(context, {&product, 1}, x, rows, scratch);
}

void Linear::apply_together(const Context& context, std::span<const Product> products, const float* x,
                            int rows, QuantizedRows& scratch) {
  const int width = products.front().layer.inputs();
  const auto inputs = static_cast<std::size_t>(width);
  bool quantized = false;
  int tiles = 0;
  for (const Product& product : products) {
    CHECK(product.layer.inputs() == width, "{} and {} inputs", product.layer.inputs(), width);
    quantized = quantized || product.layer.needs_quantized_rows();
    tiles += product.layer.weight_.tiles();
  }
  if (quantized) {
    CHECK(scratch.rows() >= rows && scratch.width() >= width, "{} rows of {}", scratch.rows(),
          scratch.width());
    context.pool.run(rows, [&](int r, int) {
      scratch.write(context.kernels, r, 0, x + static_cast<std::size_t>(r) * inputs, width);
      scratch.pad(r, width);
    });
  }
  context.pool.run(tiles, [&](int tile, int) {
    const Product* product = products.data();
    for (; tile >= product->layer.weight_.tiles(); ++product) tile -= product->layer.weight_.tiles();
    const Linear& layer = product->layer;
    const StridedRows input{.x = x,
                            .stride = inputs,
                            .quantized = layer.needs_quantized_rows() ? &scratch : nullptr,
                            .count = rows};
    multiply_rows(context.kernels, layer.weight_, tile, input, product->y,
                  static_cast<std::size_t>(layer.outputs()));
  });
}

}  // namespace tagalong::nn
