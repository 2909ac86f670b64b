// Counters of an engine since its start. Plain data: the engine's thread fills it, any thread reads a copy.
#pragma once

#include <cstdint>

#include "routing/statistics.h"

namespace tagalong::engine {

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
  routing::RoutingTotals decode_routing;  // of all MoE layers, decode_steps
  routing::RoutingTotals mixed_routing;   // the other steps
};

}  // namespace tagalong::engine
