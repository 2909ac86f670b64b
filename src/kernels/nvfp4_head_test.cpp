// Scales in five bits are the scales, whatever they are; what does not fit says where it lies.
#include "kernels/nvfp4_head.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace tagalong::kernels {
namespace {

std::vector<std::uint8_t> read_back(const Nvfp4Head& head, const std::byte* tile_end) {
  std::vector<std::uint8_t> scales;
  for (int i = 0; i < kNvfp4Scales; ++i) scales.push_back(scale_at(head, tile_end, i));
  return scales;
}

TEST(Nvfp4Head, ShortScalesComeBackAsTheyWere) {
  std::mt19937 random(3);
  for (int least = 1; least <= 0x7E; ++least) {
    Nvfp4Scales scales;
    for (auto& scale : scales) {
      scale = static_cast<std::uint8_t>(std::min(0x7E, least + static_cast<int>(random() % 32)));
    }
    scales[random() % kNvfp4Scales] = static_cast<std::uint8_t>(least);
    ASSERT_TRUE(fit_five_bits(scales));
    Nvfp4Head head;
    std::memset(&head, 0xA5, sizeof(head));  // what lay there before does not shine through
    write_short(scales, head);
    EXPECT_EQ(read_back(head, nullptr), std::vector(scales.begin(), scales.end())) << least;
  }
}

TEST(Nvfp4Head, FiveBitsReachThirtyTwoCodes) {
  Nvfp4Scales scales;
  scales.fill(0x30);
  scales[40] = 0x30 + 31;
  EXPECT_TRUE(fit_five_bits(scales));
  scales[7] = 0x2F;
  EXPECT_FALSE(fit_five_bits(scales));
}

TEST(Nvfp4Head, PlainScalesLieBehindTheTile) {
  std::vector<std::byte> behind(3 * kNvfp4Scales);
  for (std::size_t i = 0; i < behind.size(); ++i) behind[i] = static_cast<std::byte>(i % 127);
  Nvfp4Head head;
  write_plain(2, head);
  const auto scales = read_back(head, behind.data());
  for (int i = 0; i < kNvfp4Scales; ++i) EXPECT_EQ(scales[i], (2 * kNvfp4Scales + i) % 127);
}

}  // namespace
}  // namespace tagalong::kernels
