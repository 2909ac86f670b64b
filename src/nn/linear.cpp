#include "nn/linear.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "nn/tile.h"

namespace tagalong::nn {

using kernels::kMaxRows;
using kernels::kRowTile;

bool Linear::needs_quantized_rows() const { return needs_quantized(weight_.format()); }

void Linear::apply(const Context& context, const float* x, int rows, float* y, QuantizedRows& scratch) const {
  const auto inputs = static_cast<std::size_t>(weight_.inputs());
  const auto outputs = static_cast<std::size_t>(weight_.outputs());
  const bool quantized = needs_quantized_rows();
  if (quantized) {
    CHECK(scratch.rows() >= rows && scratch.width() >= weight_.inputs(), "{} rows of {}", scratch.rows(),
          scratch.width());
    context.pool.run(rows, [&](int r, int) {
      scratch.write(context.kernels, r, 0, x + static_cast<std::size_t>(r) * inputs, weight_.inputs());
      scratch.pad(r, weight_.inputs());
    });
  }
  context.pool.run(weight_.tiles(), [&](int tile, int) {
    const std::size_t column = static_cast<std::size_t>(tile) * kRowTile;
    const bool whole = column + kRowTile <= outputs;
    std::array<std::array<float, kRowTile>, kMaxRows> edge;
    for (int first = 0; first < rows; first += kMaxRows) {
      TileRows some;
      some.count = std::min(kMaxRows, rows - first);
      std::array<float*, kMaxRows> out;
      for (int m = 0; m < some.count; ++m) {
        const auto row = static_cast<std::size_t>(first + m);
        if (quantized) {
          some.quantized[m] = scratch.row(first + m);
        } else {
          some.floats[m] = x + row * inputs;
        }
        out[m] = whole ? y + row * outputs + column : edge[m].data();
      }
      multiply_tile(context.kernels, weight_, tile, some, out.data());
      if (whole) continue;
      for (int m = 0; m < some.count; ++m) {
        std::memcpy(y + static_cast<std::size_t>(first + m) * outputs + column, edge[m].data(),
                    (outputs - column) * sizeof(float));
      }
    }
  });
}

}  // namespace tagalong::nn
