// What routing did since the start, per MoE layer: counters that one thread adds to while others read.
//
// add() is called by one thread only; it neither allocates nor waits. snapshot() and totals() may run on any
// thread at any time; of each layer they return a state between two calls of add(), never half of one.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "routing/route_plan.h"

namespace tagalong::routing {

// Sums over the steps of one MoE layer or of several. The quotients are for reading.
struct RoutingTotals {
  std::uint64_t layer_steps = 0;     // MoE layers x steps
  std::uint64_t rows = 0;            // rows with a token, once for each layer
  std::uint64_t decode_rows = 0;     // of these, rows that the policy was allowed to touch
  std::uint64_t experts_exact = 0;   // distinct experts that exact routing would have loaded
  std::uint64_t experts = 0;         // distinct experts that were loaded
  std::uint64_t replaced_slots = 0;  // exact choices of decode rows that the policy did not use
  std::uint64_t short_rows = 0;      // decode rows with fewer experts than the model's k
  std::uint64_t nan_rows = 0;
  double kept_mass = 0.0;  // share of the exact choice's gate mass, summed over decode rows

  void add(const RoutingTotals& other);
  double mean_experts_exact() const { return quotient(static_cast<double>(experts_exact), layer_steps, 0.0); }
  double mean_experts() const { return quotient(static_cast<double>(experts), layer_steps, 0.0); }
  double mean_kept_mass() const { return quotient(kept_mass, decode_rows, 1.0); }

 private:
  static double quotient(double sum, std::uint64_t count, double of_none) {
    return count == 0 ? of_none : sum / static_cast<double>(count);
  }
};

struct LayerTotals : RoutingTotals {
  std::vector<std::uint64_t> tokens{};  // [plan experts], entries each expert was given

  // Mean over the largest number of tokens of a routed expert: 1 is even, 1 / experts is all on one.
  double balancedness(int routed_experts) const;
};

class RoutingStatistics {
 public:
  // `experts` as RoutePlan::experts of the widest layer.
  RoutingStatistics(int layers, int experts);

  void add(int layer, const RoutePlan& plan);
  LayerTotals snapshot(int layer) const;
  // Over all layers, without the tokens: allocates nothing.
  RoutingTotals totals() const;
  int layers() const { return layers_; }

 private:
  // The counts among RoutingTotals, in the order in which they are kept.
  static constexpr std::array kCounts = {&RoutingTotals::layer_steps, &RoutingTotals::rows,
                                         &RoutingTotals::decode_rows, &RoutingTotals::experts_exact,
                                         &RoutingTotals::experts,     &RoutingTotals::replaced_slots,
                                         &RoutingTotals::short_rows,  &RoutingTotals::nan_rows};

  // A sequence lock: `version` is odd while add() is at work, and a reader that saw it change reads again.
  struct Layer {
    std::atomic<std::uint64_t> version{0};
    std::atomic<std::uint64_t> counts[kCounts.size()]{};
    std::atomic<double> kept_mass{0.0};
    std::unique_ptr<std::atomic<std::uint64_t>[]> tokens;
  };

  const Layer& layer_at(int layer) const;
  static void read(const Layer& data, RoutingTotals& totals);
  // Runs `body`, which reads the layer's atomics into what the caller keeps, until no add() came between.
  template <typename Body>
  static void between_steps(const Layer& data, Body body);

  int layers_;
  int experts_;
  std::unique_ptr<Layer[]> data_;
};

}  // namespace tagalong::routing
