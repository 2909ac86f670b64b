// What lies behind a row's values is what a row of zeros holds.
#include "nn/quantized_rows.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "kernels/select.h"

namespace tagalong::nn {
namespace {

TEST(QuantizedRows, ArePaddedWithGroupsOfZeros) {
  for (const auto compute : {kernels::Compute::kFast, kernels::Compute::kAccurate}) {
    const kernels::Kernels& kernels = kernels::select_kernels("auto", compute);
    for (const int width : {16, 80, 112, 128, 144}) {
      QuantizedRows rows(3, width);
      const auto size =
          static_cast<std::size_t>(rows.width() / kernels::kGroup) * kernels::group_bytes(compute);
      std::memset(rows.place(kernels, 1, 0), 0xA5, size);
      std::vector<float> x(static_cast<std::size_t>(width), 0.25F);
      rows.write(kernels, 1, 0, x.data(), width);
      rows.pad(kernels, 1, width);

      x.resize(static_cast<std::size_t>(rows.width()));
      std::vector<std::byte> expected(size);
      kernels.quantize(x.data(), rows.width(), expected.data());
      EXPECT_EQ(std::memcmp(rows.row(1), expected.data(), size), 0) << width;
      EXPECT_NE(std::memcmp(rows.row(2), expected.data(), size), 0);
    }
  }
}

}  // namespace
}  // namespace tagalong::nn
