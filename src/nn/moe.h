// A mixture-of-experts layer: router, routed experts and shared expert.
//
// The router's logits are fp32. routing::route decides which rows go to which experts; the plan's groups then
// run in one pass, the shared expert as the last of them. Immutable after construction.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "nn/context.h"
#include "nn/gated_experts.h"
#include "nn/linear.h"
#include "routing/route.h"
#include "routing/route_observer.h"
#include "routing/route_plan.h"
#include "routing/router_spec.h"
#include "routing/routing_policy.h"
#include "routing/row_role.h"

namespace tagalong::nn {

// Scratch memory of the MoE layers of a model, made once for the largest batch.
struct MoeWorkspace {
  MoeWorkspace() = default;
  MoeWorkspace(const routing::RouterSpec& spec, int max_rows, const routing::RoutingPolicy& policy);

  base::AlignedBuffer<float> logits;  // [rows, experts]
  routing::RouteScratch scratch;
  routing::RoutePlan plan;
  std::vector<ExpertGroup> groups;  // [plan experts]
  QuantizedRows unused;             // the router is never quantised
  std::uint64_t calls = 0;          // of apply(): a policy that draws at random draws anew each time
};

class Moe {
 public:
  routing::RouterSpec spec;
  Linear router;                      // [experts, hidden], F32 or BF16
  std::vector<GatedWeights> experts;  // [plan experts]: the routed ones, then the shared one if there is one

  // x, out: [rows, hidden]; `layer` counts MoE layers from 0. The observer, if given, is told the plan, which
  // stays in the workspace.
  void apply(const Context& context, const float* x, std::span<const routing::RowRole> roles, int hidden,
             int layer, const routing::RoutingPolicy& policy, MoeWorkspace& workspace, GatedWorkspace& gated,
             float* out, routing::RouteObserver* observer) const;
};

}  // namespace tagalong::nn
