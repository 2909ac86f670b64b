// How a tile of a quantised weight is cut into blocks and written: one row of a table for each format.
//
// Layout of a block, 16 rows by 64 or 128 inputs, a line being 64 bytes:
//   NVFP4  64 inputs: a line of e4m3 scales [4 groups][16 rows]; then per group of 16 two lines, byte j of
//   line
//          l holding row j/4, input 8*l + j%4 in the low nibble and + 4 in the high one
//   MXFP4  128 inputs: a line of e8m0 scales [4 groups of 32][16 rows]; then two lines for each 16 as above
//   Q8     64 inputs: a line of binary16 scales [2 groups of 32][16 rows]; then per 16 inputs four lines,
//   byte
//          j of line l holding row j/4, input 4*l + j%4
// The scale line comes first because that order streams fastest.
#pragma once

#include <cstddef>

#include "tensor/weight_view.h"

namespace tagalong::kernels {

struct BlockLayout {
  tensor::Format format;
  int group;  // inputs that share a scale; divides the inputs of a weight
  int inputs;
  int bytes;
  float sum_factor;  // turns the kernels' sums into results
  // Writes block `block` of the 16 rows of tile `tile` to out [bytes], which is zero.
  void (*write)(const tensor::WeightView& weight, int tile, int block, std::byte* out);
};

// Null for formats without blocks: F32, F16, BF16 and FP8.
const BlockLayout* block_layout(tensor::Format format);

}  // namespace tagalong::kernels
