#include "engine/routing_log.h"

#include <algorithm>

namespace tagalong::engine {

RoutingLog::RoutingLog(const models::ModelInfo& info, routing::Recorder* recorder)
    : decode_(info.moe_layers, info.router.plan_experts()),
      mixed_(info.moe_layers, info.router.plan_experts()),
      recorder_(recorder) {}

void RoutingLog::begin(const models::Batch& batch, std::uint64_t step) {
  const bool prefills = std::ranges::find(batch.roles, routing::RowRole::kPrefill) != batch.roles.end();
  current_ = prefills ? &mixed_ : &decode_;
  step_ = step;
}

void RoutingLog::routed(int layer, std::span<const routing::RowRole> roles, const routing::RoutePlan& plan) {
  current_->add(layer, plan);
  if (recorder_ != nullptr) recorder_->record(step_, layer, plan, roles);
}

}  // namespace tagalong::engine
