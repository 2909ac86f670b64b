#include "tensor/weight_view.h"

#include <array>
#include <cstring>

#include "base/check.h"
#include "tensor/formats/bf16.h"
#include "tensor/formats/f16.h"
#include "tensor/formats/fp8.h"
#include "tensor/formats/mxfp4.h"
#include "tensor/formats/nvfp4.h"
#include "tensor/formats/q8.h"

namespace tagalong::tensor {

namespace {

// One row a format: numbers per block and bytes per block, scales included.
struct FormatRow {
  Format format;
  std::string_view name;
  std::int64_t block_elements;
  std::size_t block_bytes;
};

constexpr std::array<FormatRow, 7> kFormats{{
    {Format::kF32, "F32", 1, 4},
    {Format::kF16, "F16", 1, 2},
    {Format::kBF16, "BF16", 1, 2},
    {Format::kNVFP4, "NVFP4", kNvfp4Group, kNvfp4Group / 2 + 1},
    {Format::kMXFP4, "MXFP4", kMxfp4Group, kMxfp4Group / 2 + 1},
    {Format::kFP8, "FP8", 1, 1},
    {Format::kQ8, "Q8", kQ8Group, kQ8Group + 2},
}};

const FormatRow& row_of(Format format) {
  const FormatRow& row = kFormats[static_cast<std::size_t>(format)];
  CHECK(row.format == format, "{}", static_cast<int>(format));
  return row;
}

template <typename T>
T load(const std::byte* data, std::int64_t index) {
  T value;
  std::memcpy(&value, data + index * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

float e2m1_at(const std::byte* data, std::int64_t index) {
  const auto pair = load<std::uint8_t>(data, index / 2);
  return e2m1_to_float(index % 2 == 0 ? pair & 0xFU : pair >> 4U);
}

// Factor of the block that holds (row, column), the tensor's included.
float fp8_factor(const ScaleView& scales, std::int64_t columns, std::int64_t row, std::int64_t column) {
  if (scales.factors == nullptr) return scales.tensor;
  const std::int64_t across = (columns + scales.factor_columns - 1) / scales.factor_columns;
  return scales.factors[row / scales.factor_rows * across + column / scales.factor_columns] * scales.tensor;
}

// visit(at), with at(row, column) for the weight's format: chosen once for all elements that the visit reads.
template <typename Visit>
void with_elements(const WeightView& w, const Visit& visit) {
  const std::int64_t columns = w.shape.rank() == 0 ? 1 : w.shape[w.shape.rank() - 1];
  const auto visit_indices = [&](const auto& at) {
    visit([&](std::int64_t row, std::int64_t column) { return at(row * columns + column); });
  };
  switch (w.format) {
    case Format::kF32:
      return visit_indices([&](std::int64_t i) { return load<float>(w.data, i); });
    case Format::kF16:
      return visit_indices([&](std::int64_t i) { return f16_to_float(load<std::uint16_t>(w.data, i)); });
    case Format::kBF16:
      return visit_indices([&](std::int64_t i) { return bf16_to_float(load<std::uint16_t>(w.data, i)); });
    case Format::kNVFP4:
      return visit_indices([&](std::int64_t i) {
        return e2m1_at(w.data, i) * e4m3_to_float(load<std::uint8_t>(w.scales.block, i / kNvfp4Group)) *
               w.scales.tensor;
      });
    case Format::kMXFP4:
      return visit_indices([&](std::int64_t i) {
        return e2m1_at(w.data, i) * e8m0_to_float(load<std::uint8_t>(w.scales.block, i / kMxfp4Group)) *
               w.scales.tensor;
      });
    case Format::kFP8:
      return visit([&](std::int64_t row, std::int64_t column) {
        return e4m3_to_float(load<std::uint8_t>(w.data, row * columns + column)) *
               fp8_factor(w.scales, columns, row, column);
      });
    case Format::kQ8:
      return visit_indices([&](std::int64_t i) {
        return static_cast<float>(load<std::int8_t>(w.data, i)) *
               f16_to_float(load<std::uint16_t>(w.scales.block, i / kQ8Group)) * w.scales.tensor;
      });
  }
  CHECK(false, "format {}", static_cast<int>(w.format));
}

}  // namespace

std::string_view format_name(Format format) { return row_of(format).name; }

std::size_t format_bytes(Format format, std::int64_t elements) {
  const FormatRow& row = row_of(format);
  CHECK(elements % row.block_elements == 0, "{} elements of {}", elements, row.name);
  return static_cast<std::size_t>(elements / row.block_elements) * row.block_bytes;
}

float weight_at(const WeightView& weight, std::int64_t row, std::int64_t column) {
  float value = 0;
  with_elements(weight, [&](const auto& at) { value = at(row, column); });
  return value;
}

void read_row(const WeightView& weight, std::int64_t row, std::span<float> out) {
  with_elements(weight, [&](const auto& at) {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = at(row, static_cast<std::int64_t>(i));
  });
}

}  // namespace tagalong::tensor
