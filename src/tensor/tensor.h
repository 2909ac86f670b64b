// A tensor as it lies in a file: a view that owns nothing. The mapped file or buffer behind it must outlive
// it. The data need not be aligned.
#pragma once

#include <cstddef>
#include <string>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace tagalong::tensor {

struct Tensor {
  std::string name;  // for messages
  DType dtype = DType::kF32;
  Shape shape;
  const std::byte* data = nullptr;  // shape.elements() * dtype_bytes(dtype) bytes, row-major, little-endian
};

}  // namespace tagalong::tensor
