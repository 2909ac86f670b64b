// The kernels of activation rows, norms, SwiGLU and quantising: every table against scalar, bit for bit;
// scalar against double arithmetic within bounds derived from the formats.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/kernels_testing.h"
#include "kernels/tables.h"
#include "kernels/tables_testing.h"

namespace tagalong::kernels {
namespace {

TEST(Kernels, QuantisingKeepsHalfAStepAndShowsWhatIsNotFinite) {
  std::vector<float> x = normals(96, 4);
  for (int i = 16; i < 32; ++i) x[i] = 0;
  for (int i = 32; i < 48; ++i) x[i] = std::nextafter(kSmallestActivation, 0.0F);
  x[50] = std::numeric_limits<float>::infinity();
  x[70] = std::numeric_limits<float>::quiet_NaN();
  x[80] = 3e38F;
  for (const Compute compute : kClasses) {
    const Quantized reference = quantize(scalar_kernels(compute), x);
    for (const Kernels* kernels : tested_kernels(compute)) {
      const Quantized q = quantize(*kernels, x);
      for (std::size_t i = 0; i < 16; ++i) {
        // Half a step and no more: powers of two scale without rounding.
        const float scale = q.group(0).scale;
        EXPECT_LE(std::fabs(static_cast<float>(q.code(i)) * scale - x[i]), scale * 0.5F);
      }
      for (const std::size_t g : {1, 2}) {
        EXPECT_EQ(q.group(g).scale, 1.0F);
        EXPECT_EQ(q.group(g).correction, 0);
      }
      for (const std::size_t g : {3, 4}) {
        EXPECT_TRUE(std::isnan(q.group(g).scale) && std::signbit(q.group(g).scale));
      }
      EXPECT_EQ(q.group(5).scale, compute == Compute::kFast ? 0x1p121F : 0x1p114F);
      EXPECT_EQ(q.code(80), compute == Compute::kFast ? 113 : 14444);  // 3e38 in such steps
      for (std::size_t g = 0; g < 6; ++g) {
        int sum = 0;
        for (std::size_t i = 0; i < 16; ++i) sum += q.code(g * 16 + i);
        EXPECT_EQ(q.group(g).correction, -kCodeOffset * sum);
      }
      EXPECT_EQ(q.groups, reference.groups) << kernels->name;
    }
  }
}

TEST(Kernels, ScalesAreTheLeastPowersOfTwoThatLeaveRoom) {
  struct Case {
    Compute compute;
    float largest;
    float scale;
    int code;
  };
  const float below = std::nextafter(16319.5F, 0.0F);
  for (const Case& c :
       {Case{Compute::kFast, 64, 1, 64}, Case{Compute::kFast, 63.7F, 0.5F, 127},
        Case{Compute::kFast, 127.49F, 1, 127}, Case{Compute::kFast, 127.5F, 2, 64},
        Case{Compute::kFast, -0x1p-96F, 0x1p-102F, -64}, Case{Compute::kAccurate, 8192, 1, 8192},
        Case{Compute::kAccurate, below, 1, 16319}, Case{Compute::kAccurate, 16319.5F, 2, 8160}}) {
    std::vector<float> x(16, c.largest / 3);
    x[7] = c.largest;
    for (const Kernels* kernels : tested_kernels(c.compute)) {
      const Quantized q = quantize(*kernels, x);
      EXPECT_EQ(q.group(0).scale, c.scale) << kernels->name << " " << c.largest;
      EXPECT_EQ(q.code(7), c.code) << kernels->name << " " << c.largest;
    }
  }
}

TEST(Kernels, TwoPlanesHoldEveryCode) {
  // A group whose largest value makes the step 1: each whole number is its own code.
  for (int code = -16319; code <= 16319; code += 7) {
    std::vector<float> x(16, static_cast<float>(code));
    x[15] = 16319.0F;
    for (const Kernels* kernels : tested_kernels(Compute::kAccurate)) {
      EXPECT_EQ(quantize(*kernels, x).code(0), code) << kernels->name;
    }
  }
}

TEST(Kernels, RowKernelsMatchScalarAndDoubleArithmetic) {
  for (const int n : {16, 48, 192, 512}) {
    const auto x = normals(static_cast<std::size_t>(n), 1, 3.0F);
    const auto w = normals(static_cast<std::size_t>(n), 2);
    const auto b = normals(static_cast<std::size_t>(n), 3);
    double mean = 0;
    double square = 0;
    for (const float v : x) mean += v;
    mean /= n;
    for (const float v : x) square += static_cast<double>(v) * v;
    double variance = 0;
    for (const float v : x) variance += (v - mean) * (v - mean);
    for (const Kernels* kernels : tested_kernels()) {
      std::vector<float> out(static_cast<std::size_t>(n));
      std::vector<float> expected(static_cast<std::size_t>(n));

      kernels->rms_norm(x.data(), w.data(), 1e-5F, n, out.data());
      scalar_kernels().rms_norm(x.data(), w.data(), 1e-5F, n, expected.data());
      EXPECT_TRUE(same_bits(out, expected)) << kernels->name << " rms_norm " << n;
      for (int i = 0; i < n; ++i) {
        const double reference = x[i] / std::sqrt(square / n + 1e-5) * w[i];
        // A positive sum of n terms, halved by the square root, then four roundings.
        EXPECT_NEAR(out[i], reference, std::fabs(reference) * kEps * (n / 2.0 + 6));
      }

      kernels->layer_norm(x.data(), w.data(), b.data(), 1e-6F, n, out.data());
      scalar_kernels().layer_norm(x.data(), w.data(), b.data(), 1e-6F, n, expected.data());
      EXPECT_TRUE(same_bits(out, expected)) << kernels->name << " layer_norm " << n;
      for (int i = 0; i < n; ++i) {
        const double reference = (x[i] - mean) / std::sqrt(variance / n + 1e-6) * w[i] + b[i];
        const double scale = (std::fabs(x[i]) + 3) * std::fabs(w[i]) + std::fabs(b[i]);
        EXPECT_NEAR(out[i], reference, scale * kEps * (n + 8));
      }

      kernels->silu_mul(x.data(), w.data(), n, out.data());
      scalar_kernels().silu_mul(x.data(), w.data(), n, expected.data());
      EXPECT_TRUE(same_bits(out, expected)) << kernels->name << " silu_mul " << n;
      for (int i = 0; i < n; ++i) {
        const double reference = x[i] / (1 + std::exp(-static_cast<double>(x[i]))) * w[i];
        EXPECT_NEAR(out[i], reference, std::fabs(reference) * kEps * 10);
      }

      out = b;
      expected = b;
      kernels->axpy(0.3F, x.data(), n, out.data());
      scalar_kernels().axpy(0.3F, x.data(), n, expected.data());
      EXPECT_TRUE(same_bits(out, expected)) << kernels->name << " axpy " << n;
    }
  }
}

TEST(Kernels, AxpyOfSeveralRowsIsAxpyOfEach) {
  const auto a = normals(kMaxRows, 1);
  const auto x = normals(area(kMaxRows, kLanes), 2);
  const auto y = normals(area(kMaxRows, kLanes), 3);
  for (const Kernels* kernels : tested_kernels()) {
    for (int rows = 1; rows <= kMaxRows; ++rows) {
      auto out = y;
      auto expected = y;
      std::vector<const float*> from;
      std::vector<float*> to;
      for (int m = 0; m < rows; ++m) {
        from.push_back(x.data() + area(m, kLanes));
        to.push_back(out.data() + area(m, kLanes));
        scalar_kernels().axpy(a[m], from[m], kLanes, expected.data() + area(m, kLanes));
      }
      kernels->axpy_rows(a.data(), from.data(), rows, to.data());
      EXPECT_TRUE(same_bits(out, expected)) << kernels->name << ", " << rows << " rows";
    }
  }
}

TEST(Kernels, SiluIsDefinedForEveryFloat) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const std::vector<float> gate{0.0F,  -0.0F,  1e30F, -1e30F, 87.5F,         -87.5F, 88.7F,   -88.7F,
                                100.F, -100.F, kInf,  -kInf,  std::nanf(""), 1e-40F, -1e-40F, 1.0F};
  const std::vector<float> up(16, 1.0F);
  for (const Kernels* kernels : tested_kernels()) {
    std::vector<float> out(16);
    std::vector<float> expected(16);
    kernels->silu_mul(gate.data(), up.data(), 16, out.data());
    scalar_kernels().silu_mul(gate.data(), up.data(), 16, expected.data());
    EXPECT_TRUE(same_bits(out, expected)) << kernels->name;
    EXPECT_EQ(out[2], 1e30F);
    EXPECT_EQ(out[8], 100.0F);
    EXPECT_NEAR(out[9], 0.0F, 1e-35F);
    EXPECT_TRUE(std::isnan(out[12]));
  }
}

TEST(Kernels, SiluOfSeveralRowsQuantisesLikeBothSteps) {
  for (const Compute compute : kClasses) {
    for (const Kernels* kernels : tested_kernels(compute)) {
      for (int rows = 1; rows <= kMaxRows; ++rows) {
        auto gate = normals(area(rows, kGroup), 20, 3.0F);
        const auto up = normals(area(rows, kGroup), 40);
        gate.back() = std::numeric_limits<float>::quiet_NaN();
        std::vector<float> product(gate.size());
        scalar_kernels().silu_mul(gate.data(), up.data(), rows * kGroup, product.data());
        const Quantized expected = quantize(scalar_kernels(compute), product);

        Quantized found = expected;  // its padding
        std::fill_n(found.groups.begin(), rows * static_cast<std::ptrdiff_t>(group_bytes(compute)),
                    std::byte{});
        std::vector<const float*> gates;
        std::vector<const float*> ups;
        std::vector<std::byte*> out;
        for (int m = 0; m < rows; ++m) {
          gates.push_back(gate.data() + area(m, kGroup));
          ups.push_back(up.data() + area(m, kGroup));
          out.push_back(found.groups.data() + static_cast<std::size_t>(m) * group_bytes(compute));
        }
        kernels->silu_mul_quantize(gates.data(), ups.data(), rows, out.data());
        EXPECT_EQ(found.groups, expected.groups) << kernels->name << ", " << rows << " rows";
      }
    }
  }
}

}  // namespace
}  // namespace tagalong::kernels
