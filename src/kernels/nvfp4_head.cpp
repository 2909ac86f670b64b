#include "kernels/nvfp4_head.h"

#include <algorithm>

namespace tagalong::kernels {

namespace {

constexpr int kHalf = kNvfp4Scales / 2;

}  // namespace

// Loops over all scales are written so that compilers turn them into vector code: loading a model packs
// millions of blocks.
bool fit_five_bits(const Nvfp4Scales& scales) {
  std::uint8_t least = 0xFF;
  std::uint8_t largest = 0;
  for (const std::uint8_t scale : scales) {
    least = std::min(least, scale);
    largest = std::max(largest, scale);
  }
  return largest - least < 32;
}

void write_short(const Nvfp4Scales& scales, Nvfp4Head& head) {
  std::uint8_t least = 0xFF;
  for (const std::uint8_t scale : scales) least = std::min(least, scale);
  head.least = least;
  for (int i = 0; i < kHalf; ++i) {
    const int low = (scales[i] - least) & 0xF;
    const int high = (scales[i + kHalf] - least) & 0xF;
    head.low[i] = static_cast<std::uint8_t>(low | high << 4);
  }
  std::array<std::uint8_t, kNvfp4Scales> fifth;
  for (int i = 0; i < kNvfp4Scales; ++i) fifth[i] = static_cast<std::uint8_t>((scales[i] - least) >> 4);
  for (int i = 0; i < kNvfp4Scales / 8; ++i) {
    std::uint64_t eight;  // bytes of 0 or 1: the product moves byte j to bit 56 + j
    std::memcpy(&eight, &fifth[8 * i], sizeof(eight));
    head.fifth[i] = static_cast<std::uint8_t>(eight * 0x0102040810204080U >> 56);
  }
}

void write_plain(std::uint32_t plain_index, Nvfp4Head& head) {
  head.least = 0;
  std::memcpy(head.low, &plain_index, sizeof(plain_index));
}

std::uint8_t scale_at(const Nvfp4Head& head, const std::byte* tile_end, int i) {
  if (head.least == 0) {
    return std::to_integer<std::uint8_t>(head.plain(tile_end)[i]);
  }
  const int low = head.low[i % kHalf] >> (i < kHalf ? 0 : 4) & 0xF;
  const int fifth = head.fifth[i / 8] >> i % 8 & 1;
  return static_cast<std::uint8_t>(head.least + low + 16 * fifth);
}

}  // namespace tagalong::kernels
