// Where the rows of a step stand: the part of a batch that attention needs. A view.
#pragma once

#include <cstdint>
#include <span>

#include "cache/block_pool.h"
#include "cache/kv_store.h"
#include "kernels/kernels.h"

namespace tagalong::nn {

struct AttentionRows {
  std::span<const std::int32_t> positions;           // [rows]
  std::span<const std::int32_t> sequences;           // [rows] index into tables
  std::span<const cache::BlockTable* const> tables;  // [sequences]

  int count() const { return static_cast<int>(positions.size()); }
  const cache::BlockTable& table(int row) const { return *tables[static_cast<std::size_t>(sequences[row])]; }
  std::int32_t slot(int row) const { return table(row).slot(positions[row]); }
};

// The kernels' word for how the store keeps its values.
inline kernels::CacheFormat cache_format(const cache::KvStore& kv) {
  return kv.type() == cache::KvType::kF32 ? kernels::CacheFormat::kF32 : kernels::CacheFormat::kBF16;
}

// Slots of the positions 0..position of a sequence, in order, to out[position + 1].
inline void list_slots(const cache::BlockTable& table, std::int32_t position, std::int32_t* out) {
  for (std::int32_t t = 0; t <= position; ++t) out[t] = table.slot(t);
}

}  // namespace tagalong::nn
