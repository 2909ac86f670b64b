// Every code of the small formats, and the rounding rules against a search for the nearest value.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "tensor/formats/bf16.h"
#include "tensor/formats/f16.h"
#include "tensor/formats/mxfp4.h"
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

TEST(E8m0, IsAPowerOfTwoForEveryCodeButNaN) {
  for (int code = 0; code < 255; ++code) {
    EXPECT_EQ(e8m0_to_float(static_cast<std::uint8_t>(code)), std::ldexp(1.0F, code - 127)) << code;
  }
  EXPECT_TRUE(std::isnan(e8m0_to_float(kE8m0NaN)));
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

TEST(WeightView, ReadsMxfp4Fp8AndQ8) {
  const std::vector<std::uint8_t> nibbles(32, 0x52);  // 1 and 3
  const std::vector<std::uint8_t> exponents{126, 130};
  const WeightView mxfp4{.name = "w",
                         .format = Format::kMXFP4,
                         .shape = {2, 32},
                         .data = reinterpret_cast<const std::byte*>(nibbles.data()),
                         .scales = {.block = reinterpret_cast<const std::byte*>(exponents.data())}};
  EXPECT_EQ(weight_at(mxfp4, 0, 4), 0.5F);
  EXPECT_EQ(weight_at(mxfp4, 1, 31), 24.0F);
  EXPECT_EQ(format_bytes(Format::kMXFP4, 64), nibbles.size() + exponents.size());

  const std::vector<std::uint8_t> codes{0x38, 0x40, 0xB8, 0x30, 0x38, 0x38};  // 1, 2, -1, 0.5, 1, 1
  const std::vector<float> factors{2.0F, 3.0F, 5.0F, 7.0F};
  const WeightView fp8{
      .name = "w",
      .format = Format::kFP8,
      .shape = {2, 3},
      .data = reinterpret_cast<const std::byte*>(codes.data()),
      .scales = {.tensor = 10.0F, .factors = factors.data(), .factor_rows = 1, .factor_columns = 2}};
  EXPECT_EQ(weight_at(fp8, 0, 1), 40.0F);
  EXPECT_EQ(weight_at(fp8, 0, 2), -30.0F);
  EXPECT_EQ(weight_at(fp8, 1, 0), 25.0F);
  EXPECT_EQ(weight_at(fp8, 1, 2), 70.0F);

  std::vector<std::int8_t> bytes(64, -3);
  const std::vector<std::uint16_t> halves{0x3C00, 0x4000};  // 1 and 2
  const WeightView q8{.name = "w",
                      .format = Format::kQ8,
                      .shape = {1, 64},
                      .data = reinterpret_cast<const std::byte*>(bytes.data()),
                      .scales = {.block = reinterpret_cast<const std::byte*>(halves.data())}};
  EXPECT_EQ(weight_at(q8, 0, 31), -3.0F);
  EXPECT_EQ(weight_at(q8, 0, 32), -6.0F);
  EXPECT_EQ(format_bytes(Format::kQ8, 64), bytes.size() + 4);
}

}  // namespace
}  // namespace tagalong::tensor
