#include "kernels/nvfp4_head.h"

#include <algorithm>

namespace tagalong::kernels {

namespace {

constexpr int kHalf = kNvfp4Scales / 2;

}  // namespace

bool fit_five_bits(const Nvfp4Scales& scales) {
  const auto [least, largest] = std::minmax_element(scales.begin(), scales.end());
  return *largest - *least < 32;
}

void write_short(const Nvfp4Scales& scales, Nvfp4Head& head) {
  head.least = *std::min_element(scales.begin(), scales.end());
  std::memset(head.fifth, 0, sizeof(head.fifth));
  for (int i = 0; i < kNvfp4Scales; ++i) {
    const int above = scales[i] - head.least;
    head.fifth[i / 8] |= static_cast<std::uint8_t>(above >> 4 << i % 8);
    if (i < kHalf) {
      head.low[i] = static_cast<std::uint8_t>(above & 0xF);
    } else {
      head.low[i - kHalf] |= static_cast<std::uint8_t>(above << 4 & 0xF0);
    }
  }
}

void write_plain(std::uint32_t plain_index, Nvfp4Head& head) {
  head.least = 0;
  std::memcpy(head.low, &plain_index, sizeof(plain_index));
}

std::uint8_t scale_at(const Nvfp4Head& head, const std::byte* tile_end, int i) {
  if (head.least == 0) {
    return std::to_integer<std::uint8_t>(
        tile_end[std::size_t{head.plain_index()} * kNvfp4Scales + static_cast<std::size_t>(i)]);
  }
  const int low = head.low[i % kHalf] >> (i < kHalf ? 0 : 4) & 0xF;
  const int fifth = head.fifth[i / 8] >> i % 8 & 1;
  return static_cast<std::uint8_t>(head.least + low + 16 * fifth);
}

}  // namespace tagalong::kernels
