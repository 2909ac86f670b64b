// Helpers of this room's tests: random weights that own their bytes, crews, comparison of bits.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/kernels_testing.h"
#include "kernels/select.h"
#include "nn/context.h"
#include "tensor/formats/bf16.h"
#include "tensor/weight_view.h"

namespace tagalong::nn {

using kernels::normals;

struct TestWeight {
  std::vector<std::byte> data;
  std::vector<std::byte> scales;
  tensor::WeightView view;

  TestWeight(tensor::Format format, int rows, int columns, std::uint32_t seed) {
    const auto count = static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
    view = {.name = "test", .format = format, .shape = {rows, columns}};
    std::mt19937 engine(seed);
    if (format == tensor::Format::kNVFP4) {
      data.resize(count / 2);
      scales.resize(count / 16);
      for (auto& b : data) b = static_cast<std::byte>(engine());
      for (auto& b : scales) b = static_cast<std::byte>(0x28 + engine() % 16);  // 0.25 .. 0.94
      view.scales = {.block = scales.data(), .tensor = 0.05F};
    } else if (format == tensor::Format::kMXFP4) {
      data.resize(count / 2);
      scales.assign(count / 32, std::byte{125});  // 2^-2
      for (auto& b : data) b = static_cast<std::byte>(engine());
      view.scales = {.block = scales.data(), .tensor = 0.05F};
    } else if (format == tensor::Format::kFP8) {
      data.resize(count);
      for (auto& b : data) b = static_cast<std::byte>(0x20 + engine() % 32 + (engine() % 2 == 0 ? 0 : 0x80));
      view.scales.tensor = 0.2F;
    } else if (format == tensor::Format::kQ8) {
      data.resize(count);
      scales.assign(count / 32 * 2, std::byte{0x28});  // binary16 2^-5 and a little
      for (auto& b : data) b = static_cast<std::byte>(engine());
      view.scales = {.block = scales.data(), .tensor = 0.05F};
    } else {
      const auto values = normals(count, seed, 0.2F);
      const std::size_t width = format == tensor::Format::kF32 ? 4 : 2;
      data.resize(count * width);
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint16_t half = tensor::float_to_bf16(values[i]);
        std::memcpy(&data[i * width], width == 4 ? static_cast<const void*>(&values[i]) : &half, width);
      }
    }
    view.data = data.data();
  }

  double at(int row, int column) const { return tensor::weight_at(view, row, column); }
};

// Made-up crews, all on node 0, with so many workers each.
inline base::NodeCrews crews_of(const std::vector<int>& workers) {
  std::vector<base::NodeCrews::Crew> crews;
  for (const int count : workers) crews.push_back({.node = 0, .workers = count});
  return base::NodeCrews(crews);
}

// One to four nodes, alike and unlike.
inline const std::vector<std::vector<int>> kSomeCrews{{1},    {3},       {1, 1},    {2, 1},
                                                      {1, 3}, {1, 1, 1}, {2, 1, 2}, {1, 1, 1, 1}};

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace tagalong::nn
