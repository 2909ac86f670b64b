// What may be chosen for speed alone. Whatever is chosen, every result is the same to the last bit: nothing
// here cuts a sum or changes its order.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "base/thread_pool.h"
#include "kernels/kernels.h"

namespace tagalong::kernels {

inline constexpr int kMaxTaskTiles = 64;
inline constexpr int kMaxAttentionTasks = 64;
inline constexpr int kMaxTuningWorkers = 4096;
inline constexpr int kMaxPrefetch = 1 << 16;

// How passes over gated experts and over cached keys are cut and dealt.
struct Tuning {
  int row_tile = kMaxRows;   // activation rows of one tile call
  int activate_tiles = 1;    // tiles of 16 intermediate units in a task of the first phase
  int project_tiles = 0;     // tiles of 16 output features in a task of the second phase; 0: a share
  int activate_workers = 0;  // threads that take part; 0: all
  int project_workers = 0;
  base::Schedule schedule = base::Schedule::kStatic;
  int prefetch = 6144;  // bytes between the weights that are asked for and those multiplied; 0: none are
  // Tasks for each thread that attention is cut into where rows are few: by parts of keys, then by heads.
  int attention_tasks = 2;

  bool operator==(const Tuning&) const = default;
};

// "project_tiles=16,prefetch=4096": what differs from the defaults, or "default". So a text that was kept
// follows the defaults of a later version in all that it did not choose.
std::string to_string(const Tuning& tuning);
// The same text: fields that it does not name, all of them in an empty one, have their defaults. Throws
// base::InputError naming the text, the field and its range.
Tuning parse_tuning(std::string_view text);

// A choice for each size of batch: 1, 2, 4, ... 512 rows and what is closest below.
class TuningTable {
 public:
  static constexpr int kBuckets = 10;
  // The rows that a bucket is tuned with.
  static int rows_of(int bucket) { return 1 << bucket; }
  // The last bucket that has at most `rows` rows; rows >= 1.
  static int bucket_of(int rows);

  const Tuning& for_rows(int rows) const { return buckets_[static_cast<std::size_t>(bucket_of(rows))]; }
  const Tuning& operator[](int bucket) const { return buckets_[static_cast<std::size_t>(bucket)]; }
  Tuning& operator[](int bucket) { return buckets_[static_cast<std::size_t>(bucket)]; }
  bool operator==(const TuningTable&) const = default;

 private:
  std::array<Tuning, kBuckets> buckets_{};
};

}  // namespace tagalong::kernels
