#include "nn/linear.h"

#include <array>
#include <cmath>

#include "nn/nn_testing.h"

namespace tagalong::nn {
namespace {

using tensor::Format;

std::vector<float> apply(const Linear& linear, const Context& context, const std::vector<float>& x,
                         int rows) {
  std::vector<float> y(static_cast<std::size_t>(rows) * static_cast<std::size_t>(linear.outputs()), -1.0F);
  QuantizedRows scratch(rows, linear.inputs());
  linear.apply(context, x.data(), rows, y.data(), scratch);
  return y;
}

constexpr std::array kFormats{Format::kF32,   Format::kBF16,  Format::kFP8,
                              Format::kNVFP4, Format::kMXFP4, Format::kQ8};

TEST(Linear, MultipliesEveryFormatAndOddWidthsInEveryClass) {
  for (const auto compute : {kernels::Compute::kFast, kernels::Compute::kAccurate}) {
    for (const Format format : kFormats) {
      for (const int outputs : {1, 16, 23, 64}) {
        const int inputs = 96;
        const TestWeight weight(format, outputs, inputs, 7);
        const Linear linear(weight.view);
        const int rows = 11;
        const auto x = normals(static_cast<std::size_t>(rows * inputs), 3);
        base::ThreadPool pool(2);
        const auto y = apply(linear, {kernels::select_kernels("auto", compute), pool}, x, rows);
        for (int r = 0; r < rows; ++r) {
          for (int o = 0; o < outputs; ++o) {
            double exact = 0;
            double size = 0;
            double step = 0;
            for (int k = 0; k < inputs; ++k) {
              exact += weight.at(o, k) * x[static_cast<std::size_t>(r * inputs + k)];
              size += std::fabs(weight.at(o, k) * x[static_cast<std::size_t>(r * inputs + k)]);
              // Half a step of a group with amax below 5, which is more than 63 steps, or 63 * 128.
              const double steps = compute == kernels::Compute::kFast ? 63 : 63 * 128;
              step += std::fabs(weight.at(o, k)) * 2.5 / steps;
            }
            const double bound = size * (inputs + 6) * 0x1p-24 + (linear.needs_quantized_rows() ? step : 0.0);
            ASSERT_NEAR(y[static_cast<std::size_t>(r * outputs + o)], exact, bound)
                << tensor::format_name(format);
          }
        }
      }
    }
  }
}

TEST(Linear, InvarianceUnderThreadsAndBatch) {
  for (const Format format : kFormats) {
    const TestWeight weight(format, 70, 64, 9);
    const Linear linear(weight.view);
    const auto x = normals(19 * 64, 5);
    base::ThreadPool one(1);
    const auto whole = apply(linear, {kernels::select_kernels("auto"), one}, x, 19);
    for (const int threads : {1, 2, 3, 5}) {
      base::ThreadPool pool(threads);
      const Context context{kernels::select_kernels("auto"), pool};
      EXPECT_TRUE(same_bits(apply(linear, context, x, 19), whole)) << threads;
      for (int r = 0; r < 19; ++r) {
        const std::vector<float> row(x.begin() + r * 64, x.begin() + (r + 1) * 64);
        const std::vector<float> expected(whole.begin() + r * 70, whole.begin() + (r + 1) * 70);
        EXPECT_TRUE(same_bits(apply(linear, context, row, 1), expected)) << threads << " row " << r;
      }
    }
  }
}

// Layers applied together, their memory in parts or not, on pools of one to four nodes.
TEST(Linear, InvarianceUnderNodes) {
  const TestWeight wide(Format::kNVFP4, 150, 64, 9);
  const TestWeight narrow(Format::kBF16, 16, 64, 10);
  const auto x = normals(5 * 64, 5);
  const auto apply_both = [&x](const Linear& a, const Linear& b, base::ThreadPool& pool) {
    QuantizedRows scratch(5, 64);
    std::vector<float> y(5 * static_cast<std::size_t>(a.outputs() + b.outputs()), -1.0F);
    const std::array products{Linear::Product{a, y.data()}, Linear::Product{b, y.data() + 5 * a.outputs()}};
    Linear::apply_together({kernels::select_kernels("auto"), pool}, products, x.data(), 5, scratch);
    return y;
  };
  base::ThreadPool one(1);
  const auto expected = apply_both(Linear(wide.view), Linear(narrow.view), one);
  for (const auto& workers : kSomeCrews) {
    base::ThreadPool pool(crews_of(workers));
    EXPECT_TRUE(same_bits(apply_both(Linear(wide.view), Linear(narrow.view), pool), expected));
    const kernels::Packing packing{.arena = std::make_shared<base::Arena>(base::Pages::kNormal, pool.crews()),
                                   .pool = &pool};
    const Linear a(wide.view, packing);
    const Linear b(narrow.view, packing);
    EXPECT_TRUE(same_bits(apply_both(a, b, pool), expected)) << workers.size();
    EXPECT_TRUE(same_bits(apply_both(a, b, one), expected)) << workers.size();
  }
}

}  // namespace
}  // namespace tagalong::nn
