// How a tile of a quantised weight is cut into blocks and written: one row of a table for each format.
//
// A tile is its blocks, those of two matrices side by side in turn, then what their heads refer to. Layout of
// a block, 16 rows by 64 or 128 inputs, a line being 64 bytes:
//   NVFP4  64 inputs: a head with e4m3 scales [4 groups][16 rows] in five bits each, or where they lie plain
//          (nvfp4_head.h); then per group of 16 two lines, byte j of line l holding row j/4, input 8*l + j%4
//          in the low nibble and + 4 in the high one
//   MXFP4  128 inputs: a line of e8m0 scales [4 groups of 32][16 rows]; then two lines for each 16 as above
//   Q8     64 inputs: a line of binary16 scales [2 groups of 32][16 rows]; then per 16 inputs four lines,
//   byte j
//          of line l holding row j/4, input 4*l + j%4
// Scales come before what they scale because that order streams fastest.
#pragma once

#include <cstddef>

#include "tensor/weight_view.h"

namespace tagalong::kernels {

// Where a block goes: its bytes, zero, and what its head refers to, a number of bytes behind the last block
// of its tile.
struct BlockPlace {
  std::byte* block;
  std::byte* behind;
  std::size_t offset;
};

struct BlockLayout {
  tensor::Format format;
  int group;  // inputs that share a scale; divides the inputs of a weight
  int inputs;
  int bytes;
  float sum_factor;  // turns the kernels' sums into results
  // Bytes that block `block` of the 16 rows of tile `tile` needs behind the tile's blocks; null: none.
  std::size_t (*behind)(const tensor::WeightView& weight, int tile, int block);
  // Writes it; returns those bytes.
  std::size_t (*write)(const tensor::WeightView& weight, int tile, int block, const BlockPlace& place);
};

// Null for formats without blocks: F32, F16, BF16 and FP8.
const BlockLayout* block_layout(tensor::Format format);

}  // namespace tagalong::kernels
