// One tile of a packed matrix times up to kMaxRows rows, whatever the format.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/range.h"
#include "kernels/kernels.h"
#include "kernels/packed_matrix.h"
#include "nn/quantized_rows.h"

namespace tagalong::nn {

// The rows of a tile call: float rows for F32, BF16 and FP8 weights, quantised ones for the rest. Only the
// kind that the weight's format needs is filled in.
struct TileRows {
  std::array<const float*, kernels::kMaxRows> floats;
  std::array<const std::byte*, kernels::kMaxRows> quantized;
  int count = 0;
  kernels::Ahead ahead = {};
};

// The kernel of a quantised format; null for formats that are multiplied with float rows.
inline auto quantized_kernel(const kernels::Kernels& kernels, tensor::Format format) {
  switch (format) {
    case tensor::Format::kNVFP4:
      return kernels.nvfp4_tile;
    case tensor::Format::kMXFP4:
      return kernels.mxfp4_tile;
    case tensor::Format::kQ8:
      return kernels.q8_tile;
    default:
      return decltype(kernels.nvfp4_tile){nullptr};
  }
}
inline auto float_kernel(const kernels::Kernels& kernels, tensor::Format format) {
  if (format == tensor::Format::kFP8) return kernels.fp8_tile;
  return format == tensor::Format::kBF16 ? kernels.bf16_tile : kernels.f32_tile;
}

inline bool needs_quantized(tensor::Format format) { return kernels::block_layout(format) != nullptr; }

// y[m] [16] = rows `tile * 16`.. of the weight times row m.
inline void multiply_tile(const kernels::Kernels& kernels, const kernels::PackedMatrix& weight, int tile,
                          const TileRows& rows, float* const* y) {
  if (needs_quantized(weight.format())) {
    quantized_kernel(kernels, weight.format())({.weights = weight.tile(tile),
                                                .superblocks = weight.superblocks(),
                                                .streams = 1,
                                                .scales = {weight.scale(), 0.0F},
                                                .x = rows.quantized.data(),
                                                .y = {y, nullptr},
                                                .rows = rows.count,
                                                .ahead = {rows.ahead.bytes, rows.ahead.next}});
    return;
  }
  const kernels::FloatTile call{.weights = weight.tile(tile),
                                .inputs = weight.inputs(),
                                .x = rows.floats.data(),
                                .y = y,
                                .rows = rows.count,
                                .ahead = {rows.ahead.bytes, rows.ahead.next}};
  float_kernel(kernels, weight.format())(call);
}

// Asks for the lines that a tile call is going to write, one in each row: they are far apart, and a core that
// meets them one after another when the products are done waits for each.
inline void ask_for_outputs(float* const* rows, int count) {
  for (int m = 0; m < count; ++m) __builtin_prefetch(rows[m], 1);
}

// Rows of each call where `count` rows take as few calls of at most `most` as they can: calls alike, for each
// row of a short one takes longer.
inline int rows_of_call(int count, int most) {
  const int calls = std::max(1, base::pieces_of(count, most));
  return std::max(1, base::pieces_of(count, calls));
}

// Rows some distance apart: x[r * stride], or row r of `quantized`, which a quantised weight is multiplied
// with.
struct StridedRows {
  const float* x;
  std::size_t stride;
  const QuantizedRows* quantized;  // null for other formats
  int count;
  kernels::Ahead ahead = {};
};

// y[r * y_stride + tile * 16 ..] for all rows. The last tile of a width that 16 does not divide goes through
// a buffer, so that nothing is written past the weight's outputs.
inline void multiply_rows(const kernels::Kernels& kernels, const kernels::PackedMatrix& weight, int tile,
                          const StridedRows& rows, float* y, std::size_t y_stride) {
  const int column = tile * kernels::kRowTile;
  const bool whole = column + kernels::kRowTile <= weight.outputs();
  std::array<std::array<float, kernels::kRowTile>, kernels::kMaxRows> edge;
  const int step = rows_of_call(rows.count, kernels::kMaxRows);
  for (int first = 0; first < rows.count; first += step) {
    TileRows some;
    if (first == 0) some.ahead = rows.ahead;
    some.count = std::min(step, rows.count - first);
    std::array<float*, kernels::kMaxRows> out;
    for (int m = 0; m < some.count; ++m) {
      const auto row = static_cast<std::size_t>(first + m);
      if (rows.quantized != nullptr) {
        some.quantized[m] = rows.quantized->row(first + m);
      } else {
        some.floats[m] = rows.x + row * rows.stride;
      }
      out[m] = whole ? y + row * y_stride + column : edge[m].data();
    }
    ask_for_outputs(out.data(), some.count);
    multiply_tile(kernels, weight, tile, some, out.data());
    if (whole) continue;
    for (int m = 0; m < some.count; ++m) {
      std::copy_n(edge[m].data(), weight.outputs() - column,
                  y + static_cast<std::size_t>(first + m) * y_stride + column);
    }
  }
}

// What multiply_tile does, for gate and up at once.
inline void multiply_pair_tile(const kernels::Kernels& kernels, const kernels::PackedPair& weight, int tile,
                               const TileRows& rows, float* const* gate, float* const* up) {
  if (needs_quantized(weight.format())) {
    quantized_kernel(kernels, weight.format())({.weights = weight.tile(tile),
                                                .superblocks = weight.superblocks(),
                                                .streams = 2,
                                                .scales = {weight.gate_scale(), weight.up_scale()},
                                                .x = rows.quantized.data(),
                                                .y = {gate, up},
                                                .rows = rows.count,
                                                .ahead = {rows.ahead.bytes, rows.ahead.next}});
    return;
  }
  const auto multiply = float_kernel(kernels, weight.format());
  kernels::FloatTile call{.weights = weight.tile(tile),
                          .inputs = weight.inputs(),
                          .x = rows.floats.data(),
                          .y = gate,
                          .rows = rows.count,
                          .ahead = {rows.ahead.bytes, weight.tile(tile) + weight.tile_bytes()}};
  multiply(call);
  call.weights += weight.tile_bytes();
  call.y = up;
  call.ahead.next = rows.ahead.next;
  multiply(call);
}

}  // namespace tagalong::nn
