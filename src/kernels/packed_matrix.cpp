#include "kernels/packed_matrix.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "tensor/formats/bf16.h"
#include "tensor/formats/mxfp4.h"

namespace tagalong::kernels {

namespace {

using tensor::Format;
using tensor::WeightView;

int round_up(int value, int multiple) { return (value + multiple - 1) / multiple * multiple; }

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

// Tile `t` of a BF16 weight: its bits as they are, two inputs at a time.
void pack_bf16_tile(const WeightView& w, int t, std::byte* out) {
  constexpr std::size_t kBytes = sizeof(std::uint16_t);
  const int inputs = static_cast<int>(w.shape[1]);
  for (int r = 0; r < kRowTile && t * kRowTile + r < w.shape[0]; ++r) {
    const std::byte* row = w.data + static_cast<std::size_t>(t * kRowTile + r) * inputs * kBytes;
    for (int k = 0; k + 1 < inputs; k += 2) {
      std::memcpy(out + bf16_index(r, k) * kBytes, row + k * kBytes, 2 * kBytes);
    }
    if (inputs % 2 != 0) {
      const int last = inputs - 1;
      std::memcpy(out + bf16_index(r, last) * kBytes, row + last * kBytes, kBytes);
    }
  }
}

std::size_t float_tile_bytes(Format format, int inputs) {
  return static_cast<std::size_t>(round_up(inputs, 2)) * kRowTile * (format == Format::kBF16 ? 2 : 4);
}

Format packed_format(Format format) { return format == Format::kF16 ? Format::kF32 : format; }

std::size_t fp8_tile_bytes(int inputs) {
  const int blocks = round_up(inputs, kFp8Inputs) / kFp8Inputs;
  return static_cast<std::size_t>(blocks) * kFp8ScaleBytes +
         static_cast<std::size_t>(round_up(inputs, 2)) * kRowTile;
}

// The kernel reads an e4m3 code as if it were the fraction and exponent of a binary16: 2^-8 times its value.
constexpr float kFp8SumFactor = 256.0F;

// Tile `t` of an FP8 weight to `out`, which is zero.
void pack_fp8_tile(const WeightView& w, int t, std::byte* out) {
  const std::int64_t inputs = w.shape[1];
  const tensor::ScaleView& scales = w.scales;
  for (std::int64_t first = 0; first < inputs; first += kFp8Inputs) {
    const std::int64_t width = std::min<std::int64_t>(kFp8Inputs, inputs - first);
    for (int r = 0; r < kRowTile; ++r) {
      const std::int64_t row = std::int64_t{t} * kRowTile + r;
      if (row >= w.shape[0]) break;
      float factor = scales.tensor * kFp8SumFactor;
      if (scales.factors != nullptr) {
        const std::int64_t across = (inputs + scales.factor_columns - 1) / scales.factor_columns;
        factor *= scales.factors[row / scales.factor_rows * across + first / scales.factor_columns];
      }
      std::memcpy(out + r * sizeof(factor), &factor, sizeof(factor));
      for (std::int64_t k = 0; k < width; ++k) {
        out[kFp8ScaleBytes + k * kRowTile + r] = w.data[row * inputs + first + k];
      }
    }
    out += kFp8ScaleBytes + round_up(static_cast<int>(width), 2) * kRowTile;
  }
}

// Blocks of a tile; 0 for formats without blocks.
int blocks_of(Format format, int inputs) {
  const BlockLayout* layout = block_layout(format);
  return layout == nullptr ? 0 : round_up(inputs, layout->inputs) / layout->inputs;
}

// Bytes of a tile of some matrices kept as `format` side by side.
std::size_t tile_size(Format format, int inputs, int matrices) {
  if (const BlockLayout* layout = block_layout(format)) {
    return static_cast<std::size_t>(matrices * blocks_of(format, inputs)) *
           static_cast<std::size_t>(layout->bytes);
  }
  const std::size_t one = format == Format::kFP8 ? fp8_tile_bytes(inputs) : float_tile_bytes(format, inputs);
  return static_cast<std::size_t>(matrices) * one;
}

float sum_factor(const WeightView& weight) {
  const BlockLayout* layout = block_layout(weight.format);
  return layout == nullptr ? 1.0F : weight.scales.tensor * layout->sum_factor;
}

// Which of some matrices side by side is packed: their blocks alternate, or without blocks their tiles.
struct Side {
  int index = 0;
  int matrices = 1;
  std::size_t behind = 0;  // bytes behind the tile's blocks that others have taken
};

// Tile `t` of the weight to the tile at `out`, which is zero. Returns how many bytes behind its blocks are
// taken.
std::size_t pack_tile(const WeightView& weight, int t, std::byte* out, const Side& side = {}) {
  const Format format = packed_format(weight.format);
  const int outputs = static_cast<int>(weight.shape[0]);
  const int inputs = static_cast<int>(weight.shape[1]);
  const std::size_t size = tile_size(format, inputs, side.matrices);
  if (const BlockLayout* layout = block_layout(format)) {
    std::size_t behind = side.behind;
    for (int b = 0; b < blocks_of(format, inputs); ++b) {
      std::byte* const block = out + std::ptrdiff_t{b * side.matrices + side.index} * layout->bytes;
      behind +=
          layout->write(weight, t, b, {.block = block, .behind = out + size + behind, .offset = behind});
    }
    return behind;
  }
  out += static_cast<std::size_t>(side.index) * (size / static_cast<std::size_t>(side.matrices));
  if (format == Format::kFP8) {
    pack_fp8_tile(weight, t, out);
  } else if (format == Format::kBF16) {
    pack_bf16_tile(weight, t, out);
  } else {
    const auto at = [&weight](int row, int k) { return tensor::weight_at(weight, row, k); };
    pack_float_tile(format, t, outputs, inputs, at, out);
  }
  return 0;
}

// Bytes that the tiles of matrices of one shape need behind their blocks, those of all matrices together.
std::vector<std::size_t> bytes_behind(std::initializer_list<const WeightView*> weights, int tiles,
                                      const Packing& packing) {
  const WeightView& first = **weights.begin();
  const BlockLayout* layout = block_layout(first.format);
  if (layout == nullptr || layout->behind == nullptr) return {};
  const int blocks = blocks_of(first.format, static_cast<int>(first.shape[1]));
  std::vector<std::size_t> bytes(static_cast<std::size_t>(tiles));
  packing.run(tiles, [&](int t, int) {
    for (const WeightView* weight : weights) {
      for (int b = 0; b < blocks; ++b) bytes[t] += layout->behind(*weight, t, b);
    }
  });
  return bytes;
}

void check_packable(const WeightView& w) {
  CHECK(w.shape.rank() == 2, "{} {}", w.name, tensor::to_string(w.shape));
  const std::int64_t inputs = w.shape[1];
  const BlockLayout* layout = block_layout(w.format);
  if (layout != nullptr && inputs % layout->group != 0) {
    throw base::input_error("weight '{}' {}: {} shares a scale among {} inputs, which do not divide {}",
                            w.name, tensor::to_string(w.shape), tensor::format_name(w.format), layout->group,
                            inputs);
  }
  if (w.format == Format::kMXFP4) {
    const std::int64_t groups = inputs / tensor::kMxfp4Group;
    for (std::int64_t i = 0; i < w.shape[0] * groups; ++i) {
      if (std::to_integer<std::uint8_t>(w.scales.block[i]) == tensor::kE8m0NaN) {
        throw base::input_error("weight '{}' {}: the scale of row {}, inputs {} to {}, is NaN (e8m0 255)",
                                w.name, tensor::to_string(w.shape), i / groups,
                                i % groups * tensor::kMxfp4Group,
                                i % groups * tensor::kMxfp4Group + tensor::kMxfp4Group - 1);
      }
    }
  }
  if (w.format == Format::kFP8) {
    for (std::int64_t i = 0; i < w.shape.elements(); ++i) {
      if ((std::to_integer<unsigned>(w.data[i]) & 0x7FU) == 0x7FU) {
        throw base::input_error("weight '{}' {}: the value at row {}, input {}, is NaN (e4m3 {:#x})", w.name,
                                tensor::to_string(w.shape), i / inputs, i % inputs,
                                std::to_integer<unsigned>(w.data[i]));
      }
    }
  }
  if (w.format == Format::kFP8 && w.scales.factors != nullptr) {
    const std::int64_t rows = w.scales.factor_rows;
    const std::int64_t columns = w.scales.factor_columns;
    if ((columns % kFp8Inputs != 0 && columns < inputs) || rows < 1 || columns < 1) {
      throw base::input_error(
          "weight '{}' {}: FP8 factors for blocks of {} x {}, expected a multiple of {} inputs or all {}",
          w.name, tensor::to_string(w.shape), rows, columns, kFp8Inputs, inputs);
    }
  }
}

}  // namespace

PackedMatrix::PackedMatrix(const WeightView& weight, const Packing& packing)
    : format_(packed_format(weight.format)),
      outputs_(static_cast<int>(weight.shape[0])),
      inputs_(static_cast<int>(weight.shape[1])),
      superblocks_(blocks_of(format_, inputs_)),
      scale_(sum_factor(weight)) {
  check_packable(weight);
  tiles_ = TileStore(tiles(), tile_size(format_, inputs_, 1), bytes_behind({&weight}, tiles(), packing),
                     packing.arena);
  packing.run(tiles(), [&](int t, int) { pack_tile(weight, t, tiles_.tile(t)); });
}

PackedMatrix::PackedMatrix(std::span<const float> values, int outputs, int inputs, Format format,
                           const Packing& packing)
    : format_(format), outputs_(outputs), inputs_(inputs) {
  CHECK(format == Format::kF32 || format == Format::kBF16);
  CHECK(values.size() == static_cast<std::size_t>(outputs) * static_cast<std::size_t>(inputs));
  tiles_ = TileStore(tiles(), float_tile_bytes(format, inputs), {}, packing.arena);
  const auto at = [&](int row, int k) { return values[static_cast<std::size_t>(row) * inputs + k]; };
  packing.run(tiles(),
              [&](int t, int) { pack_float_tile(format_, t, outputs_, inputs_, at, tiles_.tile(t)); });
}

PackedPair::PackedPair(const WeightView& gate, const WeightView& up, const Packing& packing)
    : format_(packed_format(gate.format)),
      outputs_(static_cast<int>(gate.shape[0])),
      inputs_(static_cast<int>(gate.shape[1])),
      superblocks_(blocks_of(format_, inputs_)),
      gate_scale_(sum_factor(gate)),
      up_scale_(sum_factor(up)) {
  CHECK(gate.shape == up.shape && gate.format == up.format, "{} and {}", gate.name, up.name);
  check_packable(gate);
  check_packable(up);
  tiles_ = TileStore(tiles(), tile_size(format_, inputs_, 2), bytes_behind({&gate, &up}, tiles(), packing),
                     packing.arena);
  packing.run(tiles(), [&](int t, int) {
    std::byte* const out = tiles_.tile(t);
    const std::size_t taken = pack_tile(gate, t, out, {.index = 0, .matrices = 2});
    pack_tile(up, t, out, {.index = 1, .matrices = 2, .behind = taken});
  });
}

}  // namespace tagalong::kernels
