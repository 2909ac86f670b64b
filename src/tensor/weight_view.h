// A weight: format, shape, data and scales in one object (law 3). A view: the checkpoint that made it must
// outlive it. Everything about it was validated when it was made; users trust it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tensor/shape.h"

namespace tagalong::tensor {

// How the numbers of a weight are stored. One header each in tensor/formats/.
enum class Format : std::uint8_t {
  kF32,
  kF16,
  kBF16,
  kNVFP4,  // e2m1 nibbles, an e4m3 scale per 16 of the input dimension, one fp32 factor per tensor
  kMXFP4,  // e2m1 nibbles, an e8m0 scale per 32
  kFP8,    // e4m3 bytes, fp32 factors by tensor, output or block
  kQ8,     // int8, a binary16 scale per 32
};

std::string_view format_name(Format format);

// Bytes that `elements` numbers take, group scales included (but not the few factors of FP8). `elements` is a
// multiple of the block.
std::size_t format_bytes(Format format, std::int64_t elements);

struct ScaleView {
  // Scales of groups along the input dimension, row-major; otherwise null. NVFP4: e4m3 [out, in / 16];
  // MXFP4: e8m0 [out, in / 32]; Q8: binary16 [out, in / 32].
  const std::byte* block = nullptr;
  float tensor = 1.0F;  // factor of every element
  // FP8: factors of blocks of factor_rows x factor_columns, the last ones perhaps smaller, row-major; null:
  // none but the tensor's. One row and all columns make a factor for each output.
  const float* factors = nullptr;
  std::int64_t factor_rows = 0;
  std::int64_t factor_columns = 0;
};

struct WeightView {
  std::string name;  // module name in the checkpoint, for messages
  Format format = Format::kF32;
  Shape shape;                      // logical: [out, in] for a linear layer, whatever the packing
  const std::byte* data = nullptr;  // row-major; 4-bit formats: [out, in / 2], even element low
  ScaleView scales{};
};

// Element (row, column) of a matrix, or element `column` of a vector (row 0), dequantised. Slow: for loading
// small tensors, packing and tests.
float weight_at(const WeightView& weight, std::int64_t row, std::int64_t column);

// The first out.size() elements of a row, as weight_at gives them.
void read_row(const WeightView& weight, std::int64_t row, std::span<float> out);

}  // namespace tagalong::tensor
