// What routing decided for one layer and one step: who goes where, with which weight, and what that cost.
//
// Two views of the same entries. By expert (CSR, experts ascending, rows ascending within an expert) for the
// grouped product; by row for tests, traces and the weighted sum. Storage is reserved once and reused:
// route() only rewrites it. Owned and used by one thread at a time.
//
// The weights already hold the model's routed scaling factor. Nobody may apply it again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "routing/router_spec.h"
#include "routing/routing_policy.h"

namespace tagalong::routing {

// Whether an entry's weight multiplies what the expert returns or what it is given.
enum class WeightSide : std::uint8_t { kOutput, kInput };

struct PlanEntry {
  std::int32_t row;
  float weight;
};

struct RouteStats {
  int rows = 0;           // rows with a token (padding excluded)
  int decode_rows = 0;    // rows the policy was allowed to touch
  int experts_exact = 0;  // distinct routed experts, had every row been exact
  int experts = 0;        // distinct routed experts of this plan, T
  // Gate mass of the decode rows' experts over that of their exact ones. A row of a model that renormalises
  // counts 1, of another the sum of its scores.
  double kept_mass = 1.0;
  int replaced_slots = 0;      // exact choices of decode rows that this plan does not use
  int short_rows = 0;          // decode rows with fewer than k experts
  int fullest_rank_exact = 0;  // distinct experts on the fullest rank, had every row been exact; 0 unplaced
  int fullest_rank = 0;        // the same of this plan
  int nan_rows = 0;            // rows with a NaN among their logits: routed, but somebody should look
};

struct RoutePlan {
  int rows = 0;
  int experts = 0;  // routed and fused shared
  int slots = 0;    // entries a row may have: stride of the row view
  WeightSide weight_side = WeightSide::kOutput;
  RouteStats stats;

  // Makes room for `max_rows` rows of `spec` under `policy`, beside what was reserved before. Allocates.
  void reserve(int max_rows, const RouterSpec& spec, const RoutingPolicy& policy = {});

  // By expert: the experts with at least one entry, and the entries of the i-th of them.
  std::span<const std::int32_t> active_experts() const {
    return {active.data(), static_cast<std::size_t>(active_count)};
  }
  std::span<const PlanEntry> entries_of(int i) const {
    const auto begin = static_cast<std::size_t>(offsets[static_cast<std::size_t>(i)]);
    return {entries.data() + begin,
            static_cast<std::size_t>(offsets[static_cast<std::size_t>(i) + 1]) - begin};
  }
  int entry_count() const { return offsets[static_cast<std::size_t>(active_count)]; }

  // By row, best first, fused shared experts last.
  std::span<const std::int32_t> ids_of(int row) const { return {row_ids.data() + at(row), used(row)}; }
  std::span<const float> weights_of(int row) const { return {row_weights.data() + at(row), used(row)}; }

  int active_count = 0;
  std::vector<std::int32_t> active;      // [active_count], ascending
  std::vector<std::int32_t> offsets;     // [active_count + 1], into entries
  std::vector<PlanEntry> entries;        // [offsets[active_count]]
  std::vector<std::int32_t> row_counts;  // [rows]
  std::vector<std::int32_t> row_ids;     // [rows, slots], -1 past the row's count
  std::vector<float> row_weights;        // [rows, slots], 0 past the row's count

 private:
  std::size_t at(int row) const { return static_cast<std::size_t>(row) * static_cast<std::size_t>(slots); }
  std::size_t used(int row) const {
    return static_cast<std::size_t>(row_counts[static_cast<std::size_t>(row)]);
  }
};

// Slots a row of this layer needs under this policy: the larger of k and k_max, and the fused shared experts.
int plan_slots(const RouterSpec& spec, const RoutingPolicy& policy);

}  // namespace tagalong::routing
