#include "route_replay.h"

#include <algorithm>

namespace tagalong::tools {

using routing::RouteInput;
using routing::RoutePlan;
using routing::RouterSpec;
using routing::RouteScratch;

void ReplayTotals::add(const routing::RouteStats& stats) {
  ++steps;
  decode_rows += stats.decode_rows;
  experts_exact += stats.experts_exact;
  experts += stats.experts;
  replaced_slots += stats.replaced_slots;
  short_rows += stats.short_rows;
  fullest_rank_exact += stats.fullest_rank_exact;
  fullest_rank += stats.fullest_rank;
  kept_mass += stats.kept_mass * stats.decode_rows;
}

ReplayResult replay(const RouteTrace& trace, const routing::RoutingPolicy& policy, int ranks) {
  RouterSpec spec;
  spec.scoring = trace.scoring;
  spec.renormalise = trace.renormalise;
  spec.experts = trace.experts;
  spec.top_k = trace.top_k;
  validate(spec, "trace");
  validate(policy, spec, "trace");
  const routing::Placement placement = routing::contiguous_placement(trace.experts, std::max(1, ranks));
  validate(placement, spec, "--ranks");

  int most_rows = 0;
  for (const TraceStep& step : trace.steps) most_rows = std::max(most_rows, step.rows);
  RouteScratch scratch;
  RoutePlan plan;
  scratch.reserve(most_rows, spec, policy);
  plan.reserve(most_rows, spec, policy);
  ReplayResult result{.policy = to_string(policy)};
  std::uint64_t number = 0;
  for (const TraceStep& step : trace.steps) {
    const RouteInput input{.logits = step.logits,
                           .keys = step.keys,
                           .roles = step.roles,
                           .layer = step.layer,
                           .step = number++,
                           .placement = ranks > 1 ? &placement : nullptr};
    route(input, spec, policy, scratch, plan);
    result.all.add(plan.stats);
    result.by_rows[step.rows].add(plan.stats);
  }
  return result;
}

}  // namespace tagalong::tools
