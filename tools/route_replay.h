// Applies routing policies to a recorded trace and adds up what they would have cost. One thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "route_trace.h"
#include "routing/route.h"

namespace tagalong::tools {

// Means over the steps they were added from.
struct ReplayTotals {
  int steps = 0;
  std::int64_t decode_rows = 0;
  std::int64_t experts_exact = 0;
  std::int64_t experts = 0;
  std::int64_t replaced_slots = 0;
  std::int64_t short_rows = 0;
  std::int64_t fullest_rank_exact = 0;
  std::int64_t fullest_rank = 0;
  double kept_mass = 0.0;

  void add(const routing::RouteStats& stats);
  double per_step(std::int64_t sum) const { return static_cast<double>(sum) / std::max(1, steps); }
  double per_row(double sum) const {
    return sum / static_cast<double>(std::max<std::int64_t>(1, decode_rows));
  }
};

struct ReplayResult {
  std::string policy;
  ReplayTotals all{};
  std::map<int, ReplayTotals> by_rows{};  // rows of a step
};

// `ranks` > 1 places the experts in contiguous blocks and adds per-rank
// counts. Throws base::InputError for a policy that does not fit the trace.
ReplayResult replay(const RouteTrace& trace, const routing::RoutingPolicy& policy, int ranks);

}  // namespace tagalong::tools
