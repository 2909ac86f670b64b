// What a policy is given to decide with: one layer of one step, after the exact choice was made for each row.
//
// Internal to the room. A policy either fills the base set (and each decode row then takes its k best experts
// within it), or shortens rows (and each decode row keeps the head of its exact choice). Policies read the
// step and write scratch.base or scratch.chosen_counts; nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "routing/expert_set.h"
#include "routing/route.h"

namespace tagalong::routing {

struct PolicyStep {
  const RouteInput& input;
  const RouterSpec& spec;
  const RoutingPolicy& policy;
  RouteScratch& scratch;
  int rows;
  int decode_rows;
  int votes;  // k0 of this layer and this number of decode rows

  bool is_decode(int row) const { return input.roles[static_cast<std::size_t>(row)] == RowRole::kDecode; }
  std::span<const float> logits_of(int row) const {
    const auto experts = static_cast<std::size_t>(spec.experts);
    return input.logits.subspan(static_cast<std::size_t>(row) * experts, experts);
  }
  // The row's exact experts, best first.
  std::span<const std::int32_t> exact_of(int row) const {
    const auto k = static_cast<std::size_t>(spec.top_k);
    return {scratch.exact_ids.data() + static_cast<std::size_t>(row) * k, k};
  }
  // Working memory of the policy.
  std::span<std::uint64_t> values() const {
    return {scratch.values.data(), static_cast<std::size_t>(spec.experts)};
  }
  ExpertSet spare_set() const { return {scratch.spare_set.data(), expert_set_words(spec.experts)}; }
  // The experts decode rows may use. Holds the experts of exact rows and the resident ones from the start.
  ExpertSet base() const { return {scratch.base.data(), expert_set_words(spec.experts)}; }
};

// Scores of `ids` in a row, in that order; the same bits wherever they are computed.
void scores_of(const PolicyStep& step, int row, std::span<const std::int32_t> ids, std::span<float> scores);

// A score (not negative, not NaN) as a whole number of 2^-40, so that sums over the batch do not depend on
// the order of its rows. Saturates at 8, which leaves room for 2^20 rows.
std::uint64_t fixed_point(float score);

// Adds to `values` what each expert is worth to the decode rows: the gate weight (a row's weights sum to one)
// summed over the rows that choose it exactly. `values` is [experts] and cleared first.
void sum_gate_weights(const PolicyStep& step, std::span<std::uint64_t> values);

// Adds experts to the base set, the most valuable first and ties to the lower id, while the set holds fewer
// than `size`. Experts worth nothing are left out.
void fill_base(const PolicyStep& step, std::span<const std::uint64_t> values, int size);

// How many of the row's exact experts, best first and at most `limit`, it takes to hold the share p of its
// score: of the softmax over all experts, or, for scores that do not sum to one, of the sum over its k.
int experts_holding(const PolicyStep& step, int row, float p, int limit);

}  // namespace tagalong::routing
