#include "nn/linear.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "nn/tile.h"
#include "nn/tile_deal.h"

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
  for (const Product& product : products) {
    CHECK(product.layer.inputs() == width, "{} and {} inputs", product.layer.inputs(), width);
    quantized = quantized || product.layer.needs_quantized_rows();
  }
  std::array<TileDeal::Stretch, kMostTogether * base::kMaxCrews> room;
  TileDeal deal(context.pool.crews(), 1, room);
  deal.deal(static_cast<int>(products.size()),
            [products](int p) { return products[p].layer.weight_.tiles(); });
  const auto quantize = [&](int r, int) {
    scratch.write(context.kernels, r, 0, x + static_cast<std::size_t>(r) * inputs, width);
    scratch.pad(context.kernels, r, width);
  };
  const auto multiply = [&](int task, int) {
    const auto [p, tile, end] = deal.piece(task);
    const TileDeal::Piece next = deal.piece(std::min(task + 1, deal.tasks() - 1));
    const Linear& layer = products[p].layer;
    const StridedRows input{
        .x = x,
        .stride = inputs,
        .quantized = layer.needs_quantized_rows() ? &scratch : nullptr,
        .count = rows,
        .ahead = {context.tuning.prefetch, products[next.matrix].layer.weight_.tile(next.begin)}};
    multiply_rows(context.kernels, layer.weight_, tile, input, products[p].y,
                  static_cast<std::size_t>(layer.outputs()));
  };
  const std::array phases{base::Phase{.tasks = rows, .body = quantize},
                          base::Phase{.tasks = deal.tasks(),
                                      .body = multiply,
                                      .schedule = context.tuning.schedule,
                                      .crew_tasks = deal.crew_tasks()}};
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
