// Every table against scalar, bit for bit, on odd sizes first; scalar against plain double arithmetic within
// bounds derived from the formats.
#include "kernels/kernels.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "kernels/kernels_testing.h"
#include "kernels/packed_matrix.h"
#include "kernels/select.h"
#include "kernels/tables.h"
#include "kernels/tables_testing.h"
#include "tensor/formats/bf16.h"
#include "tensor/formats/nvfp4.h"

namespace tagalong::kernels {
namespace {

using tensor::Format;
using tensor::WeightView;

// A random weight of any format with the buffers that its view looks at.
struct RandomWeight {
  std::vector<std::byte> data;
  std::vector<std::byte> scales;
  std::vector<float> factors;
  WeightView view;

  RandomWeight(Format format, int rows, int columns, std::uint32_t seed) : engine_(seed) {
    const auto elements = static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
    view = {.name = "random", .format = format, .shape = {rows, columns}};
    if (format == Format::kF32 || format == Format::kBF16) {
      fill_floats(elements, seed);
    } else {
      data.resize(format == Format::kFP8 || format == Format::kQ8 ? elements : elements / 2);
      for (auto& b : data) b = static_cast<std::byte>(engine_());
      view.scales.tensor = 0.037F;
    }
    if (format == Format::kNVFP4) {
      scales.resize(elements / 16);
      // Most within 32 of each other, so that a good part of the blocks needs its scales plain; in all every
      // code but NaN, negative scales and zero.
      for (auto& b : scales) {
        const auto code = engine_() % 96 == 0 ? engine_() % 0x7F : 0x28 + engine_() % 32;
        b = static_cast<std::byte>(code | (engine_() % 8 == 0 ? 0x80U : 0U));
      }
    } else if (format == Format::kMXFP4) {
      scales.resize(elements / 32);
      for (auto& b : scales) b = static_cast<std::byte>(100 + engine_() % 40);
    } else if (format == Format::kQ8) {
      scales.resize(elements / 32 * 2);
      for (std::size_t i = 0; i < scales.size(); i += 2) {
        scales[i] = static_cast<std::byte>(engine_());
        scales[i + 1] =
            static_cast<std::byte>(engine_() % 0x7C);  // positive and finite, subnormals among them
      }
    } else if (format == Format::kFP8) {
      for (auto& b : data) {
        if ((b & std::byte{0x7F}) == std::byte{0x7F}) b = std::byte{0};  // NaN
      }
      set_factors(seed % 3 == 0 ? 0 : seed % 3 == 1 ? 1 : 128, seed % 3 == 1 ? columns : 128);
    }
    view.data = data.data();
    view.scales.block = scales.empty() ? nullptr : scales.data();
  }

  // Factors by block; no rows: none.
  void set_factors(int factor_rows, int factor_columns) {
    if (factor_rows == 0) return;
    const auto rows = static_cast<int>(view.shape[0]);
    const auto columns = static_cast<int>(view.shape[1]);
    factors.resize(static_cast<std::size_t>((rows + factor_rows - 1) / factor_rows) *
                   static_cast<std::size_t>((columns + factor_columns - 1) / factor_columns));
    for (float& f : factors) f = 0.01F + static_cast<float>(engine_() % 100) / 50.0F;
    view.scales.factors = factors.data();
    view.scales.factor_rows = factor_rows;
    view.scales.factor_columns = factor_columns;
  }

 private:
  void fill_floats(std::size_t elements, std::uint32_t seed) {
    const auto values = normals(elements, seed);
    const bool wide = view.format == Format::kF32;
    data.resize(elements * (wide ? 4 : 2));
    for (std::size_t i = 0; i < elements; ++i) {
      const std::uint16_t bits = tensor::float_to_bf16(values[i]);
      if (wide) {
        std::memcpy(&data[4 * i], &values[i], 4);
      } else {
        std::memcpy(&data[2 * i], &bits, 2);
      }
    }
  }

  std::mt19937 engine_;
};

bool is_quantized(Format format) { return block_layout(format) != nullptr; }

auto quantized_tile(const Kernels& kernels, Format format) {
  return format == Format::kNVFP4   ? kernels.nvfp4_tile
         : format == Format::kMXFP4 ? kernels.mxfp4_tile
                                    : kernels.q8_tile;
}
auto float_tile(const Kernels& kernels, Format format) {
  return format == Format::kF32    ? kernels.f32_tile
         : format == Format::kBF16 ? kernels.bf16_tile
                                   : kernels.fp8_tile;
}

// All outputs of `weight` for some rows, by the kernel of its format: [rows][outputs padded to 16].
std::vector<float> multiply(const Kernels& kernels, const PackedMatrix& weight,
                            const std::vector<std::vector<float>>& rows) {
  const int outputs = weight.tiles() * kRowTile;
  std::vector<float> out(rows.size() * static_cast<std::size_t>(outputs), -7.0F);
  std::vector<Quantized> quantized;
  std::vector<std::vector<float>> padded;
  for (const auto& row : rows) {
    quantized.push_back(is_quantized(weight.format()) ? quantize(kernels, row) : Quantized{});
    padded.push_back(row);
    padded.back().resize((row.size() + 1) / 2 * 2);
  }
  for (int t = 0; t < weight.tiles(); ++t) {
    const Ahead ahead{.bytes = t % 3 * 1000,
                      .next = weight.tile(0)};  // whose absence or distance changes nothing
    for (std::size_t first = 0; first < rows.size(); first += kMaxRows) {
      const int count = static_cast<int>(std::min<std::size_t>(kMaxRows, rows.size() - first));
      std::array<const float*, kMaxRows> x{};
      std::array<const std::byte*, kMaxRows> q{};
      std::array<float*, kMaxRows> y{};
      for (int m = 0; m < count; ++m) {
        x[m] = padded[first + m].data();
        q[m] = quantized[first + m].row();
        y[m] = out.data() + (first + m) * static_cast<std::size_t>(outputs) + t * kRowTile;
      }
      if (is_quantized(weight.format())) {
        quantized_tile(kernels, weight.format())({.weights = weight.tile(t),
                                                  .superblocks = weight.superblocks(),
                                                  .streams = 1,
                                                  .scales = {weight.scale(), 0},
                                                  .x = q.data(),
                                                  .y = {y.data(), nullptr},
                                                  .rows = count,
                                                  .ahead = ahead});
      } else {
        const FloatTile tile{.weights = weight.tile(t),
                             .inputs = (weight.inputs() + 1) / 2 * 2,
                             .x = x.data(),
                             .y = y.data(),
                             .rows = count,
                             .ahead = ahead};
        float_tile(kernels, weight.format())(tile);
      }
    }
  }
  return out;
}

constexpr std::array kFormats{Format::kF32,   Format::kBF16,  Format::kFP8,
                              Format::kNVFP4, Format::kMXFP4, Format::kQ8};

std::vector<std::vector<float>> random_rows(int count, int width, std::uint32_t seed) {
  std::vector<std::vector<float>> rows;
  for (int m = 0; m < count; ++m) {
    rows.push_back(normals(static_cast<std::size_t>(width), seed + static_cast<std::uint32_t>(m),
                           m == 1 ? 30.0F : 1.0F));
  }
  return rows;
}

// Inputs that the groups of a format divide, odd ones first.
std::vector<int> widths(Format format) {
  if (format == Format::kMXFP4 || format == Format::kQ8) return {32, 96, 160, 256, 416};
  return {16, 48, 64, 80, 192, 400};
}

TEST(Invariance, EveryTableGivesTheBitsOfScalarInEveryProduct) {
  for (const Compute compute : kClasses) {
    for (const Format format : kFormats) {
      for (const int outputs : {1, 15, 16, 17, 33, 96}) {
        for (const int inputs : widths(format)) {
          const RandomWeight weight(format, outputs, inputs,
                                    static_cast<std::uint32_t>(outputs * 1000 + inputs));
          const PackedMatrix packed(weight.view);
          const auto rows = random_rows(9, inputs, 5);
          const auto expected = multiply(scalar_kernels(compute), packed, rows);
          for (const Kernels* kernels : tested_kernels(compute)) {
            EXPECT_TRUE(same_bits(multiply(*kernels, packed, rows), expected))
                << kernels->name << " " << tensor::format_name(format) << " " << outputs << " x " << inputs;
          }
        }
      }
    }
  }
}

TEST(Invariance, ARowHasTheSameBitsAloneAndInAnyBatch) {
  for (const Compute compute : kClasses) {
    for (const Format format : kFormats) {
      const RandomWeight weight(format, 48, 128, 3);
      const PackedMatrix packed(weight.view);
      const auto rows = random_rows(17, 128, 11);
      for (const Kernels* kernels : tested_kernels(compute)) {
        const auto together = multiply(*kernels, packed, rows);
        for (int count = 1; count <= 17; ++count) {
          for (int first = 0; first + count <= 17; first += 3) {
            const std::vector<std::vector<float>> some(rows.begin() + first, rows.begin() + first + count);
            const std::vector<float> expected(together.begin() + first * 48,
                                              together.begin() + (first + count) * 48);
            ASSERT_TRUE(same_bits(multiply(*kernels, packed, some), expected))
                << kernels->name << " " << tensor::format_name(format) << " rows " << first << " + " << count;
          }
        }
      }
    }
  }
}

TEST(Kernels, ScalarProductsAreWithinTheBoundOfTheirSums) {
  for (const Compute compute : kClasses) {
    for (const Format format : kFormats) {
      for (const std::uint32_t seed : {8U, 9U, 10U}) {  // FP8: factors by block, by tensor, by output
        const int inputs = 192;
        const RandomWeight weight(format, 40, inputs, seed);
        const PackedMatrix packed(weight.view);
        const auto rows = random_rows(3, inputs, 21);
        const auto out = multiply(scalar_kernels(compute), packed, rows);
        for (int m = 0; m < 3; ++m) {
          // Quantised formats multiply quantised activations, so the reference does too.
          const Quantized q = quantize(scalar_kernels(compute), rows[m]);
          for (int n = 0; n < 40; ++n) {
            double exact = 0;
            double magnitude = 0;
            for (int k = 0; k < inputs; ++k) {
              const auto i = static_cast<std::size_t>(k);
              const double x = is_quantized(format)
                                   ? q.code(i) * static_cast<double>(q.group(i / kGroup).scale)
                                   : static_cast<double>(rows[m][k]);
              const double product = static_cast<double>(tensor::weight_at(weight.view, n, k)) * x;
              exact += product;
              magnitude += std::fabs(product);
            }
            // Each fused addition rounds once, relative to a sum that |products| bound; the packed weight,
            // the group's sum as a float, its product with a scale and the factors round six times more.
            const double bound = (inputs + 6) * static_cast<double>(kEps) * magnitude;
            EXPECT_NEAR(out[static_cast<std::size_t>(m * 48 + n)], exact, bound)
                << tensor::format_name(format);
          }
        }
      }
    }
  }
}

// Rows of zeros, of the smallest and of huge numbers beside others, then one that is not finite.
TEST(Invariance, ExtremeRowsGiveTheBitsOfScalarAndLeaveOthersAlone) {
  const int inputs = 192;
  for (const Compute compute : kClasses) {
    for (const Format format : {Format::kNVFP4, Format::kMXFP4, Format::kQ8}) {
      const RandomWeight weight(format, 16, inputs, 31);
      const PackedMatrix packed(weight.view);
      auto rows = random_rows(kMaxRows, inputs, 77);
      std::fill_n(rows[0].begin(), 64, 0.0F);
      for (float& x : rows[1]) x *= kSmallestActivation;
      for (float& x : rows[2]) x *= 0x1p100F;
      std::fill(rows[3].begin(), rows[3].end(), 0.0F);
      for (const float bad :
           {0.0F, std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
        if (bad != 0) rows[5][100] = bad;
        const auto expected = multiply(scalar_kernels(compute), packed, rows);
        for (std::size_t i = 0; i < expected.size(); ++i) {
          EXPECT_EQ(std::isfinite(expected[i]), bad == 0 || i / kRowTile != 5) << tensor::format_name(format);
        }
        for (const Kernels* kernels : tested_kernels(compute)) {
          EXPECT_TRUE(same_bits(multiply(*kernels, packed, rows), expected))
              << kernels->name << " " << tensor::format_name(format) << " " << bad;
        }
      }
    }
  }
}

// A product's error in activations: half a step for each, times the weight. In steps the largest of a group
// is more than 63.7 (8,159), half of what it is at most.
TEST(Kernels, TheAccurateClassErrsByHalfAStepOf15Bits) {
  for (const Format format : {Format::kNVFP4, Format::kMXFP4, Format::kQ8}) {
    const int inputs = 512;
    const RandomWeight weight(format, 16, inputs, 8);
    const PackedMatrix packed(weight.view);
    const auto rows = random_rows(8, inputs, 21);
    std::array<double, 2> worst{};
    for (const Compute compute : kClasses) {
      for (const Kernels* kernels : tested_kernels(compute)) {
        const auto out = multiply(*kernels, packed, rows);
        for (int m = 0; m < 8; ++m) {
          for (int n = 0; n < 16; ++n) {
            double exact = 0;
            double bound = 0;
            for (int k = 0; k < inputs; ++k) {
              float largest = 0;
              for (int i = k / 16 * 16; i < k / 16 * 16 + 16; ++i)
                largest = std::max(largest, std::fabs(rows[m][i]));
              const double w = tensor::weight_at(weight.view, n, k);
              const double step = largest / (compute == Compute::kFast ? 63.7 : 8159.0);
              exact += w * static_cast<double>(rows[m][k]);
              // Half a step, then fp32 sums as above.
              bound += std::fabs(w) * (step * 0.5 + (inputs + 10) * static_cast<double>(kEps) *
                                                        (std::fabs(static_cast<double>(rows[m][k])) + step));
            }
            const double error = std::fabs(out[static_cast<std::size_t>(m * 16 + n)] - exact);
            EXPECT_LE(error, bound) << kernels->name << " " << tensor::format_name(format);
            auto& most = worst[static_cast<std::size_t>(compute)];
            most = std::max(most, error / bound);
          }
        }
      }
    }
    // The bound is not idle: errors of random signs add up to a good part of it.
    EXPECT_GT(worst[0], 0.01) << tensor::format_name(format);
    EXPECT_GT(worst[1], 0.01) << tensor::format_name(format);
  }
}

std::string refusal(const WeightView& weight) {
  try {
    const PackedMatrix packed(weight);
  } catch (const base::InputError& error) {
    return error.what();
  }
  return "packed";
}

TEST(Packing, RefusesByNameWhatDoesNotDivide) {
  EXPECT_EQ(refusal(RandomWeight(Format::kNVFP4, 2, 40, 1).view),
            "weight 'random' [2, 40]: NVFP4 shares a scale among 16 inputs, which do not divide 40");
  EXPECT_EQ(refusal(RandomWeight(Format::kMXFP4, 2, 48, 1).view),
            "weight 'random' [2, 48]: MXFP4 shares a scale among 32 inputs, which do not divide 48");
  EXPECT_EQ(refusal(RandomWeight(Format::kQ8, 2, 48, 1).view),
            "weight 'random' [2, 48]: Q8 shares a scale among 32 inputs, which do not divide 48");
  RandomWeight blocks(Format::kFP8, 64, 256, 3);
  blocks.set_factors(64, 64);
  EXPECT_EQ(refusal(blocks.view),
            "weight 'random' [64, 256]: FP8 factors for blocks of 64 x 64, expected a multiple of 128 inputs "
            "or all "
            "256");
  RandomWeight value(Format::kFP8, 4, 64, 1);
  value.data[70] = std::byte{0xFF};
  EXPECT_EQ(refusal(value.view), "weight 'random' [4, 64]: the value at row 1, input 6, is NaN (e4m3 0xff)");
  RandomWeight nan(Format::kMXFP4, 4, 64, 1);
  nan.scales[5] = std::byte{0xFF};
  EXPECT_EQ(refusal(nan.view),
            "weight 'random' [4, 64]: the scale of row 2, inputs 32 to 63, is NaN (e8m0 255)");
}

// Gate and up of all rows by one pass over a pair: [2][rows][32].
std::array<std::vector<float>, 2> multiply_pair(const Kernels& kernels, const PackedPair& pair,
                                                const std::vector<std::vector<float>>& rows) {
  std::array<std::vector<float>, 2> out{std::vector<float>(rows.size() * 32),
                                        std::vector<float>(rows.size() * 32)};
  std::vector<Quantized> quantized;
  for (const auto& row : rows) quantized.push_back(quantize(kernels, row));
  for (int t = 0; t < 2; ++t) {
    std::array<const std::byte*, kMaxRows> x{};
    std::array<std::array<float*, kMaxRows>, 2> y{};
    for (std::size_t m = 0; m < rows.size(); ++m) {
      x[m] = quantized[m].row();
      for (std::size_t s = 0; s < 2; ++s) y[s][m] = out[s].data() + m * 32 + t * 16;
    }
    quantized_tile(kernels, pair.format())({.weights = pair.tile(t),
                                            .superblocks = pair.superblocks(),
                                            .streams = 2,
                                            .scales = {pair.gate_scale(), pair.up_scale()},
                                            .x = x.data(),
                                            .y = {y[0].data(), y[1].data()},
                                            .rows = static_cast<int>(rows.size())});
  }
  return out;
}

TEST(Kernels, PairsComputeGateAndUpAsTwoMatricesDo) {
  for (const Format format : {Format::kNVFP4, Format::kMXFP4, Format::kQ8}) {
    const RandomWeight gate(format, 32, 192, 1);
    RandomWeight up(format, 32, 192, 2);
    up.view.scales.tensor *= 1.5F;
    const PackedPair pair(gate.view, up.view);
    for (const Compute compute : kClasses) {
      for (int count = 1; count <= kMaxRows; ++count) {
        const auto rows = random_rows(count, 192, 2);
        const auto expected_gate = multiply(scalar_kernels(compute), PackedMatrix(gate.view), rows);
        const auto expected_up = multiply(scalar_kernels(compute), PackedMatrix(up.view), rows);
        for (const Kernels* kernels : tested_kernels(compute)) {
          const auto out = multiply_pair(*kernels, pair, rows);
          EXPECT_TRUE(same_bits(out[0], expected_gate)) << kernels->name << " " << count << " rows";
          EXPECT_TRUE(same_bits(out[1], expected_up)) << kernels->name << " " << count << " rows";
        }
      }
    }
  }
}

TEST(Packing, PairsOfFormatsWithoutBlocksAlternateTiles) {
  for (const Format format : {Format::kF32, Format::kBF16, Format::kFP8}) {
    const RandomWeight gate(format, 32, 192, 1);
    const RandomWeight up(format, 32, 192, 2);
    const PackedPair pair(gate.view, up.view);
    const PackedMatrix first(gate.view);
    const PackedMatrix second(up.view);
    for (int t = 0; t < 2; ++t) {
      EXPECT_EQ(std::memcmp(pair.tile(t), first.tile(t), pair.tile_bytes()), 0);
      EXPECT_EQ(std::memcmp(pair.tile(t) + pair.tile_bytes(), second.tile(t), pair.tile_bytes()), 0);
    }
  }
}

TEST(Select, TakesTheBestAndNamesWhatIsImpossible) {
  EXPECT_EQ(&select_kernels("auto"), available_kernels().front());
  EXPECT_EQ(select_kernels("scalar").name, "scalar");
  EXPECT_EQ(select_kernels("auto", Compute::kAccurate).compute, Compute::kAccurate);
  try {
    select_kernels("sse9");
    FAIL();
  } catch (const base::InputError& error) {
    EXPECT_EQ(std::string(error.what()),
              "instruction set 'sse9' is not one of avx512, avx512_vnni, avx2_vnni, avx2, scalar, auto");
  }
}

TEST(Select, ParsesTheClassOfCompute) {
  EXPECT_EQ(parse_compute("fast"), Compute::kFast);
  EXPECT_EQ(parse_compute("accurate"), Compute::kAccurate);
  try {
    parse_compute("exact");
    FAIL();
  } catch (const base::InputError& error) {
    EXPECT_EQ(std::string(error.what()), "compute class 'exact' is not one of fast, accurate");
  }
}

// What the tests above could not show on this machine, by name; of avx2_vnni that is no more than an encoding
// where its stand-in ran (tables_testing.h).
TEST(Select, EveryTableWasTested) {
  for (const std::string_view name : {"avx512", "avx512_vnni", "avx2_vnni", "avx2"}) {
    try {
      select_kernels(name);
    } catch (const base::InputError& error) {
      GTEST_SKIP() << error.what();
    }
  }
}

}  // namespace
}  // namespace tagalong::kernels
