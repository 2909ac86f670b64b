// The cached values of all sequences: for each plane (a model's layer and kind, such as "layer 3, latent") a
// matrix [slots, width]. The model decides what the planes are; the store only keeps them.
//
// Different slots may be written from different threads; a slot is written before it is read (the model's
// step does so between two parallel loops). Values are kept as fp32, bf16 or e4m3 (without a scale, so
// magnitudes above 448 are cut off); rounding happens once, on write, so that prefill and decode read the
// same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/aligned_buffer.h"
#include "cache/block_pool.h"

namespace tagalong::cache {

enum class KvType : std::uint8_t { kF32, kBF16, kF8 };

// "bf16", "f32" or "fp8". Throws InputError naming the value.
KvType parse_kv_type(std::string_view text);
constexpr std::size_t kv_bytes(KvType type) {
  return type == KvType::kF32 ? 4 : type == KvType::kBF16 ? 2 : 1;
}

class KvStore {
 public:
  // widths: one entry a plane, values per position.
  KvStore(std::span<const int> widths, int blocks, KvType type);

  KvType type() const { return type_; }
  int slots() const { return slots_; }
  int width(int plane) const { return planes_[static_cast<std::size_t>(plane)].width; }
  std::size_t bytes() const { return data_.size(); }

  // First byte of [slots, width] of the plane.
  const std::byte* plane(int plane) const {
    return data_.data() + planes_[static_cast<std::size_t>(plane)].offset;
  }

  // Stores width(plane) values at `slot`.
  void write(int plane, std::int32_t slot, std::span<const float> values);

 private:
  struct Plane {
    int width;
    std::size_t offset;
  };
  std::vector<Plane> planes_;
  int slots_;
  KvType type_;
  base::AlignedBuffer<std::byte> data_;
};

}  // namespace tagalong::cache
