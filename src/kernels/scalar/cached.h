// A value of the KV cache, whatever its format.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "kernels/kernels.h"
#include "kernels/scalar/math.h"
#include "tensor/formats/bf16.h"
#include "tensor/formats/fp8.h"

namespace tagalong::kernels::scalar {

// Value `index` from `data` on.
inline float cached_value(const std::byte* data, std::size_t index, CacheFormat format) {
  switch (format) {
    case CacheFormat::kF32:
      return load<float>(data, index);
    case CacheFormat::kBF16:
      return tensor::bf16_to_float(load<std::uint16_t>(data, index));
    case CacheFormat::kF8:
      return tensor::e4m3_to_float(load<std::uint8_t>(data, index));
  }
  CHECK(false, "cache format {}", static_cast<int>(format));
}

}  // namespace tagalong::kernels::scalar
