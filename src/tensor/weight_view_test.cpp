#include "tensor/weight_view.h"

#include <gtest/gtest.h>

#include <bit>
#include <vector>

#include "base/split_mix.h"

namespace tagalong::tensor {
namespace {

constexpr int kRows = 5;
constexpr int kColumns = 96;

// Whatever bytes, NaN and -0 among them: a row is read as its elements are.
TEST(WeightView, ARowIsItsElements) {
  base::SplitMix64 random(1);
  std::vector<std::byte> data(std::size_t{kRows} * kColumns * sizeof(float));
  std::vector<std::byte> scales(std::size_t{kRows} * kColumns);
  std::vector<float> factors(std::size_t{kRows} * kColumns);
  for (std::byte& b : data) b = static_cast<std::byte>(random.next());
  for (std::byte& b : scales) b = static_cast<std::byte>(random.next());
  for (float& f : factors) f = static_cast<float>(random.next() % 1000) / 7.0F;

  for (const Format format : {Format::kF32, Format::kF16, Format::kBF16, Format::kNVFP4, Format::kMXFP4,
                              Format::kFP8, Format::kQ8}) {
    WeightView view{.name = "w", .format = format, .shape = {kRows, kColumns}, .data = data.data()};
    view.scales = {.block = scales.data(), .tensor = 0.3F};
    if (format == Format::kFP8) {
      view.scales = {.tensor = 0.3F, .factors = factors.data(), .factor_rows = 2, .factor_columns = 40};
    }
    for (int row = 0; row < kRows; ++row) {
      std::vector<float> values(kColumns);
      read_row(view, row, values);
      for (int column = 0; column < kColumns; ++column) {
        EXPECT_EQ(std::bit_cast<std::uint32_t>(values[column]),
                  std::bit_cast<std::uint32_t>(weight_at(view, row, column)))
            << format_name(format) << " " << row << ", " << column;
      }
    }
  }
}

// By hand: nibbles 0x9 and 0x7 are -0.5 and 6, e4m3's 0x38 is 1 and 0x40 is 2.
TEST(WeightView, ElementsOfNvfp4) {
  std::vector<std::byte> data(32, std::byte{0});
  data[0] = std::byte{0x79};
  data[8 + 16] = std::byte{0x79};  // row 1, group 1
  const std::vector<std::byte> scales{std::byte{0x38}, std::byte{0x38}, std::byte{0x38}, std::byte{0x40}};
  WeightView view{.name = "w", .format = Format::kNVFP4, .shape = {2, 32}, .data = data.data()};
  view.scales = {.block = scales.data(), .tensor = 10.0F};
  std::vector<float> row(32);
  read_row(view, 0, row);
  EXPECT_EQ(row[0], -5.0F);
  EXPECT_EQ(row[1], 60.0F);
  EXPECT_EQ(row[2], 0.0F);
  read_row(view, 1, row);
  EXPECT_EQ(row[16], -10.0F);
  EXPECT_EQ(row[17], 120.0F);
}

}  // namespace
}  // namespace tagalong::tensor
