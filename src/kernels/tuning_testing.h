// Settings at random for tests that no result depends on them.
#pragma once

#include <cstdint>
#include <random>

#include "kernels/tuning.h"

namespace tagalong::kernels {

// Odd ones often: more tiles and workers than there are, prefetches past the end.
inline Tuning random_tuning(std::mt19937& random) {
  const auto below = [&random](int n) { return static_cast<int>(random() % static_cast<std::uint32_t>(n)); };
  return {.row_tile = 1 + below(kMaxRows),
          .activate_tiles = below(3) == 0 ? kMaxTaskTiles : 1 + below(5),
          .project_tiles = below(5) == 0 ? kMaxTaskTiles : below(6),
          .activate_workers = below(6),
          .project_workers = below(6),
          .schedule = below(2) == 0 ? base::Schedule::kStealing : base::Schedule::kStatic,
          .prefetch = below(3) == 0 ? 0 : 1 + below(kMaxPrefetch),
          .attention_tasks = below(3) == 0 ? kMaxAttentionTasks : 1 + below(9)};
}

}  // namespace tagalong::kernels
