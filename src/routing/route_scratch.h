// Working memory of route(): reserved once for the largest step, then only overwritten.
//
// One per thread that routes. Holds nothing that outlives a call but the choice of instruction set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "routing/expert_set.h"
#include "routing/router_spec.h"
#include "routing/routing_policy.h"
#include "routing/row_kernels.h"

namespace tagalong::routing {

struct RouteScratch {
  explicit RouteScratch(RouteIsa isa = RouteIsa::kBest);

  // Makes room for `max_rows` rows of `spec` under `policy`, beside what was reserved before. Allocates.
  void reserve(int max_rows, const RouterSpec& spec, const RoutingPolicy& policy = {});

  const RowKernels* kernels;
  int max_rows = 0;
  std::size_t widest_row = 0;    // most experts of a row, rounded up to kCodeAlign
  std::size_t most_slots = 0;    // of a plan's row
  std::size_t most_choices = 0;  // largest k or k_max

  // Written by route(), for the rows of the current call; strides are those of the current spec.
  std::vector<std::uint32_t> codes;     // [rows, experts rounded up to kCodeAlign] order codes of the keys
  std::vector<RowNorm> norms;           // [rows]
  std::vector<std::int32_t> exact_ids;  // [rows, k], best first
  std::vector<std::int32_t> chosen_counts;  // [rows], what policies that shorten rows decide
  std::vector<float> gathered;              // [rows, slots], logits of the chosen experts
  std::vector<float> scores;                // [experts], one row's scores
  std::vector<float> zeros;                 // [experts], the correction bias of models without one
  std::vector<std::uint64_t> values;        // [experts], what an expert is worth to the batch
  std::vector<std::uint64_t> base;          // the experts that decode rows may use
  std::vector<std::uint64_t> spare_set;     // working memory of a policy
  std::vector<std::uint64_t> exact_union;   // the experts of exact routing
  std::vector<std::int32_t> expert_rows;    // [plan experts + 1], counts, then fill positions
};

}  // namespace tagalong::routing
