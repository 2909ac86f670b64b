// Routing: logits in, RoutePlan out. A pure function of its arguments.
//
// No threads, no kernels of other rooms, no globals; nothing is allocated or thrown once plan and scratch are
// reserved and spec and policy are validated. Rows never influence each other under the exact policy, nor
// under any policy whose knob is off; ties go to the lowest expert id; NaN ranks below every number.
// May run on any thread; plan and scratch belong to the caller of the moment.
#pragma once

#include <cstdint>
#include <span>

#include "routing/expert_set.h"
#include "routing/placement.h"
#include "routing/route_plan.h"
#include "routing/route_scratch.h"
#include "routing/router_spec.h"
#include "routing/routing_policy.h"
#include "routing/row_role.h"

namespace tagalong::routing {

struct RouteInput {
  std::span<const float> logits;   // [rows, experts]
  std::span<const float> keys{};   // [rows, experts] what ranks in place of score and bias; or empty.
                                   // For replays, which know the order but not the bias
  std::span<const RowRole> roles;  // [rows]
  std::span<const std::int32_t> token_ids{};  // [rows], read by layers with a hash table only
  int layer = 0;                              // MoE layer counted from 0, for per-layer knobs
  std::uint64_t step = 0;                     // differs from call to call; for controls that draw at random
  const Placement* placement = nullptr;       // where experts live, for per-rank costs
  ConstExpertSet resident{};                  // experts that cost nothing today: part of every base set
};

void route(const RouteInput& input, const RouterSpec& spec, const RoutingPolicy& policy,
           RouteScratch& scratch, RoutePlan& plan);

// The common case: every layer alike, nothing resident.
void route(std::span<const float> logits, const RouterSpec& spec, const RoutingPolicy& policy,
           std::span<const RowRole> roles, RouteScratch& scratch, RoutePlan& plan);

}  // namespace tagalong::routing
