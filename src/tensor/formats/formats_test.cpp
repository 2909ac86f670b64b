// Every code of the small formats, and the rounding rules against a search for the nearest value.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "tensor/formats/bf16.h"
#include "tensor/formats/f16.h"
#include "tensor/formats/nvfp4.h"
#include "tensor/weight_view.h"

namespace tagalong::tensor {
namespace {

TEST(E2m1, HasTheSixteenValuesOfTheFormat) {
  const std::vector<float> expected{0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0F, -0.5, -1, -1.5, -2, -3, -4, -6};
  for (unsigned code = 0; code < 16; ++code) {
    EXPECT_EQ(e2m1_to_float(code), expected[code]);
    EXPECT_EQ(std::signbit(e2m1_to_float(code)), code >= 8);
    EXPECT_EQ(float_to_e2m1(expected[code]), code);
  }
}

TEST(E2m1, RoundsToNearestTiesToEven) {
  for (int step = 0; step <= 7 * 64; ++step) {
    const float x = static_cast<float>(step) / 64.0F;
    unsigned best = 0;
    for (unsigned code = 1; code < 8; ++code) {
      const float d = std::fabs(e2m1_to_float(code) - x);
      const float b = std::fabs(e2m1_to_float(best) - x);
      if (d < b || (d == b && code % 2 == 0)) best = code;
    }
    EXPECT_EQ(float_to_e2m1(x), best) << x;
    EXPECT_EQ(float_to_e2m1(-x), best | 8U) << x;
  }
}

TEST(E4m3, DecodesEveryCode) {
  for (unsigned code = 0; code < 128; ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    const float value = e4m3_to_float(byte);
    if (code == 0x7F) {
      EXPECT_TRUE(std::isnan(value));
      continue;
    }
    const unsigned exponent = code >> 3;
    const float fraction = static_cast<float>(code & 7U) / 8.0F;
    const float expected = exponent == 0 ? std::ldexp(fraction, -6)
                                         : std::ldexp(1.0F + fraction, static_cast<int>(exponent) - 7);
    EXPECT_EQ(value, expected) << code;
    EXPECT_EQ(e4m3_to_float(static_cast<std::uint8_t>(code | 0x80U)), -expected);
    EXPECT_EQ(float_to_e4m3(value), byte);
  }
}

TEST(E4m3, RoundsToNearestTiesToEvenAndSaturates) {
  for (unsigned code = 0; code < 0x7E; ++code) {
    const float low = e4m3_to_float(static_cast<std::uint8_t>(code));
    const float high = e4m3_to_float(static_cast<std::uint8_t>(code + 1));
    const float middle = (low + high) / 2;
    EXPECT_EQ(float_to_e4m3(middle), code % 2 == 0 ? code : code + 1);
    EXPECT_EQ(float_to_e4m3(std::nextafter(middle, 0.0F)), code);
    EXPECT_EQ(float_to_e4m3(std::nextafter(middle, 1e9F)), code + 1);
  }
  EXPECT_EQ(float_to_e4m3(1e30F), 0x7E);
  EXPECT_EQ(float_to_e4m3(-460.0F), 0xFE);
  EXPECT_EQ(float_to_e4m3(NAN) & 0x7F, 0x7F);
}

TEST(Bf16, RoundsEveryBorderToNearestEven) {
  for (std::uint32_t code = 0; code < 0x7F80; ++code) {
    const auto bits = static_cast<std::uint16_t>(code);
    EXPECT_EQ(float_to_bf16(bf16_to_float(bits)), bits);
    const float middle = std::bit_cast<float>((code << 16) | 0x8000U);
    EXPECT_EQ(float_to_bf16(middle), code % 2 == 0 ? code : code + 1);
    EXPECT_EQ(float_to_bf16(std::bit_cast<float>((code << 16) | 0x7FFFU)), code);
    EXPECT_EQ(float_to_bf16(std::bit_cast<float>((code << 16) | 0x8001U)), code + 1);
  }
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(std::bit_cast<float>(0x7F800001U)))));
}

TEST(F16, DecodesEveryCode) {
  for (std::uint32_t code = 0; code < 0x7C00; ++code) {
    const int exponent = static_cast<int>(code >> 10);
    const double fraction = static_cast<double>(code & 0x3FFU);
    const double expected =
        exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024.0 + fraction, exponent - 25);
    EXPECT_EQ(f16_to_float(static_cast<std::uint16_t>(code)), static_cast<float>(expected)) << code;
    EXPECT_EQ(f16_to_float(static_cast<std::uint16_t>(code | 0x8000U)), static_cast<float>(-expected));
  }
  EXPECT_TRUE(std::isinf(f16_to_float(0x7C00)));
  EXPECT_TRUE(std::isnan(f16_to_float(0x7C01)));
}

TEST(WeightView, ReadsNvfp4WithBothScales) {
  std::vector<std::byte> data(2 * 8);
  std::vector<std::byte> scales{std::byte{0x38}, std::byte{0x40}};  // 1 and 2
  data[0] = std::byte{0x2F};                                        // -6, then 1
  data[15] = std::byte{0x90};                                       // 0, then -0.5
  const WeightView weight{.name = "w",
                          .format = Format::kNVFP4,
                          .shape = {2, 16},
                          .data = data.data(),
                          .scales = {.block = scales.data(), .tensor = 0.25F}};
  EXPECT_EQ(weight_at(weight, 0, 0), -1.5F);
  EXPECT_EQ(weight_at(weight, 0, 1), 0.25F);
  EXPECT_EQ(weight_at(weight, 1, 15), -0.25F);
  EXPECT_EQ(format_bytes(Format::kNVFP4, 32), 18U);
}

}  // namespace
}  // namespace tagalong::tensor
