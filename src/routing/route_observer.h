// Who is told how each MoE layer of a step was routed: statistics, recorders, tests.
#pragma once

#include <span>

#include "routing/route_plan.h"
#include "routing/row_role.h"

namespace tagalong::routing {

class RouteObserver {
 public:
  virtual ~RouteObserver() = default;

  // `layer` counts MoE layers from 0; roles are those of the plan's rows. Called on the thread that runs the
  // step, once per layer in their order, before the experts run; plan and roles are valid during the call. A
  // step does nothing else meanwhile, so whoever serves requests neither allocates nor waits here.
  virtual void routed(int layer, std::span<const RowRole> roles, const RoutePlan& plan) = 0;
};

}  // namespace tagalong::routing
