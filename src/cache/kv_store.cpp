#include "cache/kv_store.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "base/error.h"
#include "tensor/formats/bf16.h"
#include "tensor/formats/fp8.h"

namespace tagalong::cache {

KvType parse_kv_type(std::string_view text) {
  if (text == "f32") return KvType::kF32;
  if (text == "bf16") return KvType::kBF16;
  if (text == "fp8") return KvType::kF8;
  throw base::input_error("KV cache type '{}' is not one of bf16, f32, fp8", text);
}

KvStore::KvStore(std::span<const int> widths, int blocks, KvType type)
    : slots_(blocks * kBlockTokens), type_(type) {
  std::size_t offset = 0;
  for (const int width : widths) {
    CHECK(width > 0, "plane of width {}", width);
    planes_.push_back({width, offset});
    const std::size_t bytes =
        static_cast<std::size_t>(slots_) * static_cast<std::size_t>(width) * kv_bytes(type);
    offset += (bytes + base::kCacheLine - 1) / base::kCacheLine * base::kCacheLine;
  }
  data_ = base::AlignedBuffer<std::byte>(offset);
}

void KvStore::write(int plane, std::int32_t slot, std::span<const float> values) {
  const Plane& p = planes_[static_cast<std::size_t>(plane)];
  CHECK(slot >= 0 && slot < slots_ && static_cast<int>(values.size()) == p.width,
        "slot {} of {}, {} values of {}", slot, slots_, values.size(), p.width);
  std::byte* row = data_.data() + p.offset + static_cast<std::size_t>(slot) * values.size() * kv_bytes(type_);
  if (type_ == KvType::kF32) {
    std::memcpy(row, values.data(), values.size_bytes());
    return;
  }
  if (type_ == KvType::kF8) {
    for (std::size_t i = 0; i < values.size(); ++i)
      row[i] = static_cast<std::byte>(tensor::float_to_e4m3(values[i]));
    return;
  }
  std::array<std::uint16_t, 64> some;
  for (std::size_t first = 0; first < values.size(); first += some.size()) {
    const std::size_t count = std::min(some.size(), values.size() - first);
    for (std::size_t i = 0; i < count; ++i) some[i] = tensor::float_to_bf16(values[first + i]);
    std::memcpy(row + 2 * first, some.data(), 2 * count);
  }
}

}  // namespace tagalong::cache
