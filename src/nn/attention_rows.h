// Where the rows of a step stand: the part of a batch that attention needs. A view.
#pragma once

#include <cstdint>
#include <span>

#include "base/check.h"
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
  switch (kv.type()) {
    case cache::KvType::kF32:
      return kernels::CacheFormat::kF32;
    case cache::KvType::kBF16:
      return kernels::CacheFormat::kBF16;
    case cache::KvType::kF8:
      return kernels::CacheFormat::kF8;
  }
  CHECK(false, "KV type {}", static_cast<int>(kv.type()));
}

// A run of batch rows, first.. first + count, that one kernel call takes together.
struct RowRun {
  int first;
  int count;
};

// Cuts the rows of which take(row) is true into runs of at most kAttentionRows rows of one sequence, written
// to out [rows]; returns how many. Rows for which alone(row) is true stay by themselves. Which rows run
// together changes no result.
template <typename Take, typename Alone>
int list_runs(const AttentionRows& rows, Take take, Alone alone, RowRun* out) {
  int runs = 0;
  for (int r = 0; r < rows.count(); ++r) {
    if (!take(r)) continue;
    const bool joins =
        runs > 0 && !alone(r) && !alone(r - 1) && out[runs - 1].count < kernels::kAttentionRows &&
        out[runs - 1].first + out[runs - 1].count == r && rows.sequences[r] == rows.sequences[r - 1];
    if (joins) {
      ++out[runs - 1].count;
    } else {
      out[runs++] = {r, 1};
    }
  }
  return runs;
}

}  // namespace tagalong::nn
