// Counters of an engine since its start. Plain data: the engine's thread fills it, any thread reads a copy.
#pragma once

#include <cstdint>

#include "routing/route_plan.h"

namespace tagalong::engine {

// What routing cost, summed over MoE layers and steps. The quotients are for reading.
struct RoutingTotals {
  std::uint64_t layer_steps = 0;     // MoE layers x steps
  std::uint64_t rows = 0;            // rows x MoE layers
  std::uint64_t decode_rows = 0;     // of these, rows that the policy was allowed to touch
  std::uint64_t experts = 0;         // distinct experts that were loaded
  std::uint64_t experts_exact = 0;   // distinct experts that exact routing would have loaded
  std::uint64_t replaced_slots = 0;  // exact choices of decode rows that the policy did not use
  std::uint64_t short_rows = 0;      // decode rows with fewer experts than the model's k
  std::uint64_t nan_rows = 0;
  double kept_mass = 0;  // share of the exact choice's score, summed over decode rows

  // One MoE layer in one step.
  void add(const routing::RouteStats& layer);

  double mean_experts() const { return ratio(static_cast<double>(experts), layer_steps); }
  double mean_experts_exact() const { return ratio(static_cast<double>(experts_exact), layer_steps); }
  double mean_kept_mass() const { return decode_rows == 0 ? 1 : ratio(kept_mass, decode_rows); }

 private:
  static double ratio(double sum, std::uint64_t count) {
    return count == 0 ? 0 : sum / static_cast<double>(count);
  }
};

struct EngineStats {
  std::uint64_t steps = 0;
  std::uint64_t decode_steps = 0;   // steps without a prefill row
  double step_seconds = 0;          // from schedule to commit, all steps
  double decode_seconds = 0;        // of this, decode_steps
  std::uint64_t decode_tokens = 0;  // generated in decode_steps
  std::uint64_t prefill_rows = 0;   // rows computed for prompts, recomputed ones included
  std::uint64_t prompt_tokens = 0;  // of the requests admitted, each counted once
  std::uint64_t generated_tokens = 0;
  std::uint64_t preemptions = 0;
  std::uint64_t submitted = 0;
  std::uint64_t finished_stop = 0;
  std::uint64_t finished_length = 0;
  std::uint64_t finished_cancelled = 0;
  int running = 0;  // requests that hold KV blocks
  int waiting = 0;  // requests that the engine has taken in and that hold none
  int kv_blocks_used = 0;
  int kv_blocks_total = 0;
  RoutingTotals decode_routing;  // decode_steps
  RoutingTotals mixed_routing;   // the other steps
};

}  // namespace tagalong::engine
