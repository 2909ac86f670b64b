#include "kernels/block_layout.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "kernels/kernels.h"
#include "kernels/nvfp4_head.h"
#include "tensor/formats/mxfp4.h"
#include "tensor/formats/nvfp4.h"
#include "tensor/formats/q8.h"

namespace tagalong::kernels {

namespace {

using tensor::Format;
using tensor::WeightView;

// Calls body(r, first, group) for each row of the tile and each group of 16 inputs of the block that the
// weight has: row r of the tile, its first element's index in the weight.
template <typename Body>
void for_each_group(const WeightView& w, int tile, int first_input, int inputs, const Body& body) {
  for (int group = 0; group < inputs / kGroup; ++group) {
    const std::int64_t k = std::int64_t{first_input} + group * kGroup;
    if (k >= w.shape[1]) return;  // the rest is padding
    for (int r = 0; r < kRowTile; ++r) {
      const std::int64_t row = std::int64_t{tile} * kRowTile + r;
      if (row >= w.shape[0]) break;
      body(r, row * w.shape[1] + k, group);
    }
  }
}

// Eight consecutive codes (two a byte, the even one low) as four bytes: code k beside code k + 4.
std::uint32_t pair_codes(std::uint32_t codes) {
  const auto spread = [](std::uint32_t four) {
    four = (four | four << 8) & 0x00FF00FFU;
    return (four | four << 4) & 0x0F0F0F0FU;
  };
  return spread(codes & 0xFFFFU) | spread(codes >> 16) << 4;
}

// The sixteen codes of row r from element `first` on, each xor `flip`.
void write_codes(const WeightView& w, std::int64_t first, int r, std::uint32_t flip, std::byte* lines) {
  for (int line = 0; line < 2; ++line) {
    std::uint32_t codes;
    std::memcpy(&codes, w.data + first / 2 + line * 4, sizeof(codes));
    codes = pair_codes(codes ^ flip);
    std::memcpy(lines + line * 64 + r * 4, &codes, sizeof(codes));
  }
}

// The scales of an NVFP4 block without their signs. Zeros, whose weights are zero whatever their codes, and
// padding take the least of the others, or 1.
Nvfp4Scales scales_of(const WeightView& w, int tile, int block) {
  Nvfp4Scales scales{};
  const std::int64_t first = std::int64_t{block} * kNvfp4Inputs;
  const std::int64_t groups = std::min(w.shape[1] - first, std::int64_t{kNvfp4Inputs}) / kGroup;
  for (int r = 0; r < kRowTile; ++r) {
    const std::int64_t row = std::int64_t{tile} * kRowTile + r;
    if (row >= w.shape[0]) break;
    const std::byte* of_row = w.scales.block + (row * w.shape[1] + first) / kGroup;
    for (std::int64_t g = 0; g < groups; ++g) {
      scales[g * kRowTile + r] = std::to_integer<std::uint8_t>(of_row[g] & std::byte{0x7F});
    }
  }
  constexpr std::uint8_t kOne = 0x38;
  std::uint8_t below = 0xFF;  // the least less one, of which zero becomes the largest byte
  for (const std::uint8_t scale : scales) below = std::min(below, static_cast<std::uint8_t>(scale - 1));
  const std::uint8_t least = below == 0xFF ? kOne : static_cast<std::uint8_t>(below + 1);
  for (std::uint8_t& scale : scales) scale = scale == 0 ? least : scale;
  return scales;
}

std::size_t behind_nvfp4(const WeightView& w, int tile, int block) {
  return fit_five_bits(scales_of(w, tile, block)) ? 0 : sizeof(Nvfp4Scales);
}

std::size_t write_nvfp4(const WeightView& w, int tile, int block, const BlockPlace& place) {
  for_each_group(w, tile, block * kNvfp4Inputs, kNvfp4Inputs, [&](int r, std::int64_t first, int group) {
    const std::byte scale = w.scales.block[first / tensor::kNvfp4Group];
    if ((scale & std::byte{0x7F}) == std::byte{0}) return;
    // The kernels know no negative scale: its sign moves into the values.
    const std::uint32_t flip = (scale & std::byte{0x80}) != std::byte{0} ? 0x88888888U : 0U;
    write_codes(w, first, r, flip, place.block + sizeof(Nvfp4Head) + group * 128);
  });
  auto& head = *reinterpret_cast<Nvfp4Head*>(place.block);
  const Nvfp4Scales scales = scales_of(w, tile, block);
  if (fit_five_bits(scales)) {
    write_short(scales, head);
    return 0;
  }
  write_plain(static_cast<std::uint32_t>(place.offset / sizeof(scales)), head);
  std::memcpy(place.behind, scales.data(), sizeof(scales));
  return sizeof(scales);
}

std::size_t write_mxfp4(const WeightView& w, int tile, int block, const BlockPlace& place) {
  std::byte* const out = place.block;
  for_each_group(w, tile, block * kMxfp4Inputs, kMxfp4Inputs, [&](int r, std::int64_t first, int group) {
    out[group / 2 * kRowTile + r] = w.scales.block[first / tensor::kMxfp4Group];
    write_codes(w, first, r, 0, out + 64 + group * 128);
  });
  return 0;
}

std::size_t write_q8(const WeightView& w, int tile, int block, const BlockPlace& place) {
  std::byte* const out = place.block;
  for_each_group(w, tile, block * kQ8Inputs, kQ8Inputs, [&](int r, std::int64_t first, int group) {
    std::memcpy(out + (group / 2 * kRowTile + r) * 2, w.scales.block + first / tensor::kQ8Group * 2, 2);
    for (int line = 0; line < 4; ++line) {
      std::memcpy(out + 64 + group * 256 + line * 64 + r * 4, w.data + first + line * 4, 4);
    }
  });
  return 0;
}

// The kernels read e2m1 values doubled, and an e4m3 scale as if it were the fraction and exponent of a
// binary16, which is 2^-8 times its value: NVFP4's sums come out 2^-7 too small, MXFP4's twice too large.
constexpr std::array<BlockLayout, 3> kLayouts{{
    {Format::kNVFP4, tensor::kNvfp4Group, kNvfp4Inputs, kNvfp4Bytes, 128.0F, behind_nvfp4, write_nvfp4},
    {Format::kMXFP4, tensor::kMxfp4Group, kMxfp4Inputs, kMxfp4Bytes, 0.5F, nullptr, write_mxfp4},
    {Format::kQ8, tensor::kQ8Group, kQ8Inputs, kQ8Bytes, 1.0F, nullptr, write_q8},
}};

}  // namespace

const BlockLayout* block_layout(Format format) {
  for (const BlockLayout& layout : kLayouts) {
    if (layout.format == format) return &layout;
  }
  return nullptr;
}

}  // namespace tagalong::kernels
