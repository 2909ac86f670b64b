#include "nn/linear.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "nn/tile.h"

namespace tagalong::nn {

bool Linear::needs_quantized_rows() const { return needs_quantized(weight_.format()); }

// A tile of products whose tiles are counted together.
struct Linear::Place {
  const Linear& layer;
  int tile;
  float* y;
};

Linear::Place Linear::place_of(std::span<const Product> products, int tile) {
  const Product* product = products.data();
  for (; tile >= product->layer.weight_.tiles(); ++product) tile -= product->layer.weight_.tiles();
  return {product->layer, tile, product->y};
}

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
  const auto quantize = [&](int r, int) {
    scratch.write(context.kernels, r, 0, x + static_cast<std::size_t>(r) * inputs, width);
    scratch.pad(context.kernels, r, width);
  };
  const auto multiply = [&](int task, int) {
    const auto [layer, tile, y] = place_of(products, task);
    const Place next = place_of(products, std::min(task + 1, tiles - 1));
    const StridedRows input{.x = x,
                            .stride = inputs,
                            .quantized = layer.needs_quantized_rows() ? &scratch : nullptr,
                            .count = rows,
                            .ahead = {context.tuning.prefetch, next.layer.weight_.tile(next.tile)}};
    multiply_rows(context.kernels, layer.weight_, tile, input, y, static_cast<std::size_t>(layer.outputs()));
  };
  const std::array phases{base::Phase{.tasks = rows, .body = quantize},
                          base::Phase{.tasks = tiles, .body = multiply, .schedule = context.tuning.schedule}};
  std::span<const base::Phase> needed(phases);
  if (quantized) {
    CHECK(scratch.rows() >= rows && scratch.width() >= width, "{} rows of {}", scratch.rows(),
          scratch.width());
    if (rows == 1) quantize(0, 0);  // sooner done than dealt
  }
  if (!quantized || rows == 1) needed = needed.subspan(1);
  context.pool.run_phases(needed);
}

}  // namespace tagalong::nn
