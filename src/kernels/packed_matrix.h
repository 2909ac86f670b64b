// A weight matrix in the order in which the kernels read it, made once at load.
//
// Rows (output features) stand in tiles of 16, one lane each, so that a lane sums one output from the first
// input feature to the last whatever the instruction set. Layout of a tile, by format:
//   F32    [K/2][2][16] float
//   BF16   [K/2][16][2] bf16: a 32-bit lane holds an even and the next odd input feature
//   FP8    per 128 inputs a line of 16 float factors (times 256), then [inputs][16] e4m3
//   NVFP4, MXFP4, Q8   blocks of 64 or 128 inputs (block_layout.h)
// F16 weights are kept as F32. Rows are padded to 16, K to 2 (or to a whole block), with zeros. Immutable
// after construction; any thread may read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/block_layout.h"
#include "kernels/kernels.h"
#include "kernels/packing.h"
#include "kernels/tile_store.h"
#include "tensor/weight_view.h"

namespace tagalong::kernels {

// Counts the changes of the layouts above and of the tiles that read them: what was measured with one says
// nothing about another.
inline constexpr int kPackVersion = 4;

class PackedMatrix {
 public:
  PackedMatrix() = default;
  // weight: [outputs, inputs]. Throws InputError naming the weight if its groups do not divide the inputs, if
  // FP8 factors do not follow tiles, or if an e4m3 value or an e8m0 scale is NaN.
  explicit PackedMatrix(const tensor::WeightView& weight, const Packing& packing = {});
  // Row-major fp32 [outputs, inputs], kept as `format` (F32 or BF16).
  PackedMatrix(std::span<const float> values, int outputs, int inputs, tensor::Format format,
               const Packing& packing = {});

  tensor::Format format() const { return format_; }  // any but F16
  int outputs() const { return outputs_; }
  int inputs() const { return inputs_; }
  int tiles() const { return (outputs_ + kRowTile - 1) / kRowTile; }
  std::size_t bytes() const { return tiles_.bytes(); }

  const std::byte* tile(int index) const { return tiles_.tile(index); }
  // Formats with blocks: how many a tile has, and the factor that turns a tile's sums into results.
  int superblocks() const { return superblocks_; }
  float scale() const { return scale_; }

 private:
  tensor::Format format_ = tensor::Format::kF32;
  int outputs_ = 0;
  int inputs_ = 0;
  int superblocks_ = 0;
  float scale_ = 1.0F;
  TileStore tiles_;
};

// Gate and up projection of a gated feed-forward layer, interleaved so that one pass reads both: blocks
// alternate gate, up; formats without blocks alternate whole tiles.
class PackedPair {
 public:
  PackedPair() = default;
  // Both [outputs, inputs] and of one format; their tensor factors may differ.
  PackedPair(const tensor::WeightView& gate, const tensor::WeightView& up, const Packing& packing = {});

  tensor::Format format() const { return format_; }
  int outputs() const { return outputs_; }  // of each
  int inputs() const { return inputs_; }
  int tiles() const { return (outputs_ + kRowTile - 1) / kRowTile; }
  std::size_t bytes() const { return tiles_.bytes(); }

  // Blocks of gate and up of this tile, alternating; without blocks the gate tile, then the up tile.
  const std::byte* tile(int index) const { return tiles_.tile(index); }
  std::size_t tile_bytes() const { return tiles_.tile_bytes() / 2; }  // of one matrix
  int superblocks() const { return superblocks_; }
  float gate_scale() const { return gate_scale_; }
  float up_scale() const { return up_scale_; }

 private:
  tensor::Format format_ = tensor::Format::kF32;
  int outputs_ = 0;
  int inputs_ = 0;
  int superblocks_ = 0;
  float gate_scale_ = 1.0F;
  float up_scale_ = 1.0F;
  TileStore tiles_;
};

}  // namespace tagalong::kernels
