// What routing did since the start, per MoE layer: counters that one thread adds to while others read.
//
// add() is called by the engine's thread only; it neither allocates nor waits. snapshot() may run on any
// thread at any time and returns a state between two calls of add(), never half of one.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "routing/route_plan.h"

namespace tagalong::routing {

struct LayerTotals {
  std::uint64_t steps = 0;
  std::uint64_t rows = 0;
  std::uint64_t decode_rows = 0;
  std::uint64_t experts_exact = 0;  // summed over steps, as the next three
  std::uint64_t experts = 0;
  std::uint64_t replaced_slots = 0;
  std::uint64_t short_rows = 0;
  std::uint64_t nan_rows = 0;
  double kept_mass = 0.0;               // summed over decode rows
  std::vector<std::uint64_t> tokens{};  // [plan experts], entries each expert was given

  double mean_experts_exact() const {
    return steps == 0 ? 0.0 : static_cast<double>(experts_exact) / static_cast<double>(steps);
  }
  double mean_experts() const {
    return steps == 0 ? 0.0 : static_cast<double>(experts) / static_cast<double>(steps);
  }
  double mean_kept_mass() const {
    return decode_rows == 0 ? 1.0 : kept_mass / static_cast<double>(decode_rows);
  }
  // Mean over the largest number of tokens of a routed expert: 1 is even, 1 / experts is all on one.
  double balancedness(int routed_experts) const;
};

class RoutingStatistics {
 public:
  // `experts` as RoutePlan::experts of the widest layer.
  RoutingStatistics(int layers, int experts);

  void add(int layer, const RoutePlan& plan);
  LayerTotals snapshot(int layer) const;
  int layers() const { return layers_; }

 private:
  enum Counter { kSteps, kRows, kDecodeRows, kExpertsExact, kExperts, kReplaced, kShort, kNan, kCounters };
  // A sequence lock: `version` is odd while add() is at work, and a reader that saw it change reads again.
  struct Layer {
    std::atomic<std::uint64_t> version{0};
    std::atomic<std::uint64_t> counters[kCounters]{};
    std::atomic<double> kept_mass{0.0};
    std::unique_ptr<std::atomic<std::uint64_t>[]> tokens;
  };

  int layers_;
  int experts_;
  std::unique_ptr<Layer[]> data_;
};

}  // namespace tagalong::routing
