// The head of a block of packed NVFP4 weights, 16 rows by 64 inputs: their scales, kept short without losing
// any.
//
// The e4m3 scales of neighbouring weights lie close together: as bytes, which grow with the value, nearly
// always within 32 of each other, four powers of two. Then five bits a scale and the least of them tell all.
// Where they do not fit, the scales lie plain behind the blocks of the tile.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/kernels.h"

namespace tagalong::kernels {

// A block's scales [4 groups][16 rows] as e4m3 without sign, none of them zero: kernels may add exponents.
inline constexpr int kNvfp4Scales = kNvfp4Inputs / kGroup * kRowTile;
using Nvfp4Scales = std::array<std::uint8_t, kNvfp4Scales>;

struct Nvfp4Head {
  std::uint8_t low[kNvfp4Scales / 2];    // scale - least, four bits: of scale i low, of scale 32 + i high
  std::uint8_t fifth[kNvfp4Scales / 8];  // the fifth bit: of scale i bit i % 8 of byte i / 8
  std::uint8_t least;                    // 0: the scales lie plain

  // Where the scales lie plain, in a tile whose blocks end at `tile_end`: `low` begins with their place
  // there.
  const std::byte* plain(const std::byte* tile_end) const {
    std::uint32_t index;
    std::memcpy(&index, low, sizeof(index));
    return tile_end + std::size_t{index} * kNvfp4Scales;
  }
};
static_assert(sizeof(Nvfp4Head) == kNvfp4HeadBytes && alignof(Nvfp4Head) == 1);

// Whether five bits are enough.
bool fit_five_bits(const Nvfp4Scales& scales);

// Writes scales that fit_five_bits, or refers to where plain ones lie.
void write_short(const Nvfp4Scales& scales, Nvfp4Head& head);
void write_plain(std::uint32_t plain_index, Nvfp4Head& head);

// Scale i of a block of a tile whose blocks end at `tile_end`: what the kernels' own code computes.
std::uint8_t scale_at(const Nvfp4Head& head, const std::byte* tile_end, int i);

}  // namespace tagalong::kernels
