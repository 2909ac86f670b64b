// Element types as safetensors names them (its format section "dtype").
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tagalong::tensor {

enum class DType : std::uint8_t {
  kBool,
  kU8,
  kI8,
  kF8E4M3,
  kF8E5M2,
  kF8E8M0,
  kF16,
  kBF16,
  kI16,
  kU16,
  kF32,
  kI32,
  kU32,
  kF64,
  kI64,
  kU64,
};

// "BF16" and so on; nullopt for names that are unknown or that no part of Tagalong computes with.
std::optional<DType> dtype_from_name(std::string_view name);
std::string_view dtype_name(DType dtype);
std::size_t dtype_bytes(DType dtype);

}  // namespace tagalong::tensor
