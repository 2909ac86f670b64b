#include "kernels/packed_matrix.h"

#include <cstring>
#include <vector>

#include "base/check.h"
#include "tensor/formats/bf16.h"
#include "tensor/formats/nvfp4.h"

namespace tagalong::kernels {

namespace {

using tensor::Format;
using tensor::WeightView;

// The kernels read an e4m3 scale as if it were the fraction and exponent of a binary16, which is 2^-8 times
// its value, and e2m1 values doubled: together the sums come out 2^-7 too small.
constexpr float kNvfp4SumFactor = 128.0F;

int round_up(int value, int multiple) { return (value + multiple - 1) / multiple * multiple; }

// Eight consecutive codes (two a byte, the even one low) as four bytes: code k beside code k + 4.
std::uint32_t pair_codes(std::uint32_t codes) {
  const auto spread = [](std::uint32_t four) {
    four = (four | four << 8) & 0x00FF00FFU;
    return (four | four << 4) & 0x0F0F0F0FU;
  };
  return spread(codes & 0xFFFFU) | spread(codes >> 16) << 4;
}

// Superblock `block` of the 16 rows of tile `t`, written to `out` [576], which is zero.
void pack_superblock(const WeightView& w, int t, int block, std::byte* out) {
  const auto outputs = w.shape[0];
  const auto inputs = w.shape[1];
  for (int group = 0; group < kSuperblock / kGroup; ++group) {
    const std::int64_t k = std::int64_t{block} * kSuperblock + group * kGroup;
    if (k >= inputs) return;  // the rest is padding
    for (int r = 0; r < kRowTile; ++r) {
      const std::int64_t row = std::int64_t{t} * kRowTile + r;
      if (row >= outputs) break;
      const std::int64_t first = row * inputs + k;
      const std::byte scale = w.scales.block[first / kGroup];
      // The kernels know no negative scale: its sign moves into the values.
      const std::uint32_t flip = (scale & std::byte{0x80}) != std::byte{0} ? 0x88888888U : 0U;
      out[group * kRowTile + r] = scale & std::byte{0x7F};
      for (int line = 0; line < 2; ++line) {
        std::uint32_t codes;
        std::memcpy(&codes, w.data + first / 2 + line * 4, sizeof(codes));
        codes = pair_codes(codes ^ flip);
        std::memcpy(out + 64 + (group * 2 + line) * 64 + r * 4, &codes, sizeof(codes));
      }
    }
  }
}

// Position in a float tile of row r, input feature k.
std::size_t f32_index(int r, int k) {
  return (static_cast<std::size_t>(k / 2) * 2 + k % 2) * kRowTile + static_cast<std::size_t>(r);
}
std::size_t bf16_index(int r, int k) {
  return (static_cast<std::size_t>(k / 2) * kRowTile + static_cast<std::size_t>(r)) * 2 + k % 2;
}

// Tile `t` of a matrix whose elements `at(row, k)` are floats.
template <typename At>
void pack_float_tile(Format format, int t, int outputs, int inputs, const At& at, std::byte* out) {
  for (int r = 0; r < kRowTile && t * kRowTile + r < outputs; ++r) {
    for (int k = 0; k < inputs; ++k) {
      const float value = at(t * kRowTile + r, k);
      if (format == Format::kBF16) {
        const std::uint16_t bits = tensor::float_to_bf16(value);
        std::memcpy(out + bf16_index(r, k) * sizeof(bits), &bits, sizeof(bits));
      } else {
        std::memcpy(out + f32_index(r, k) * sizeof(value), &value, sizeof(value));
      }
    }
  }
}

std::size_t float_tile_bytes(Format format, int inputs) {
  return static_cast<std::size_t>(round_up(inputs, 2)) * kRowTile * (format == Format::kBF16 ? 2 : 4);
}

Format packed_format(Format format) { return format == Format::kF16 ? Format::kF32 : format; }

auto element_of(const WeightView& weight) {
  return [&weight](int row, int k) { return tensor::weight_at(weight, row, k); };
}

}  // namespace

PackedMatrix::PackedMatrix(const WeightView& weight)
    : format_(packed_format(weight.format)),
      outputs_(static_cast<int>(weight.shape[0])),
      inputs_(static_cast<int>(weight.shape[1])) {
  CHECK(weight.shape.rank() == 2, "{} {}", weight.name, tensor::to_string(weight.shape));
  if (format_ == Format::kNVFP4) {
    superblocks_ = round_up(inputs_, kSuperblock) / kSuperblock;
    tile_bytes_ = static_cast<std::size_t>(superblocks_) * kSuperblockBytes;
    scale_ = weight.scales.tensor * kNvfp4SumFactor;
  } else {
    tile_bytes_ = float_tile_bytes(format_, inputs_);
  }
  data_ = base::AlignedBuffer<std::byte>(tile_bytes_ * static_cast<std::size_t>(tiles()));
  for (int t = 0; t < tiles(); ++t) {
    std::byte* out = data_.data() + static_cast<std::size_t>(t) * tile_bytes_;
    if (format_ == Format::kNVFP4) {
      for (int b = 0; b < superblocks_; ++b) pack_superblock(weight, t, b, out + b * kSuperblockBytes);
    } else {
      pack_float_tile(format_, t, outputs_, inputs_, element_of(weight), out);
    }
  }
}

PackedMatrix::PackedMatrix(std::span<const float> values, int outputs, int inputs, Format format)
    : format_(format), outputs_(outputs), inputs_(inputs), tile_bytes_(float_tile_bytes(format, inputs)) {
  CHECK(format == Format::kF32 || format == Format::kBF16);
  CHECK(values.size() == static_cast<std::size_t>(outputs) * static_cast<std::size_t>(inputs));
  data_ = base::AlignedBuffer<std::byte>(tile_bytes_ * static_cast<std::size_t>(tiles()));
  const auto at = [&](int row, int k) { return values[static_cast<std::size_t>(row) * inputs + k]; };
  for (int t = 0; t < tiles(); ++t) {
    pack_float_tile(format_, t, outputs_, inputs_, at,
                    data_.data() + static_cast<std::size_t>(t) * tile_bytes_);
  }
}

PackedPair::PackedPair(const WeightView& gate, const WeightView& up) {
  CHECK(gate.shape == up.shape && gate.format == up.format, "{} and {}", gate.name, up.name);
  const PackedMatrix first(gate);
  const PackedMatrix second(up);
  format_ = first.format_;
  outputs_ = first.outputs_;
  inputs_ = first.inputs_;
  superblocks_ = first.superblocks_;
  tile_bytes_ = first.tile_bytes_;
  gate_scale_ = first.scale_;
  up_scale_ = second.scale_;
  data_ = base::AlignedBuffer<std::byte>(first.bytes() + second.bytes());
  const std::size_t run = format_ == Format::kNVFP4 ? kSuperblockBytes : tile_bytes_;
  for (std::size_t at = 0; at < first.bytes(); at += run) {
    std::memcpy(data_.data() + 2 * at, first.data_.data() + at, run);
    std::memcpy(data_.data() + 2 * at + run, second.data_.data() + at, run);
  }
}

}  // namespace tagalong::kernels
