#include "tensor/dtype.h"

#include <array>

#include "base/check.h"

namespace tagalong::tensor {

namespace {

struct Row {
  DType dtype;
  std::string_view name;
  std::size_t bytes;
};

constexpr std::array<Row, 16> kRows{{
    {DType::kBool, "BOOL", 1},
    {DType::kU8, "U8", 1},
    {DType::kI8, "I8", 1},
    {DType::kF8E4M3, "F8_E4M3", 1},
    {DType::kF8E5M2, "F8_E5M2", 1},
    {DType::kF8E8M0, "F8_E8M0", 1},
    {DType::kF16, "F16", 2},
    {DType::kBF16, "BF16", 2},
    {DType::kI16, "I16", 2},
    {DType::kU16, "U16", 2},
    {DType::kF32, "F32", 4},
    {DType::kI32, "I32", 4},
    {DType::kU32, "U32", 4},
    {DType::kF64, "F64", 8},
    {DType::kI64, "I64", 8},
    {DType::kU64, "U64", 8},
}};

const Row& row(DType dtype) {
  const Row& r = kRows[static_cast<std::size_t>(dtype)];
  CHECK(r.dtype == dtype, "{}", static_cast<int>(dtype));
  return r;
}

}  // namespace

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const Row& r : kRows) {
    if (r.name == name) return r.dtype;
  }
  return std::nullopt;
}

std::string_view dtype_name(DType dtype) { return row(dtype).name; }
std::size_t dtype_bytes(DType dtype) { return row(dtype).bytes; }

}  // namespace tagalong::tensor
