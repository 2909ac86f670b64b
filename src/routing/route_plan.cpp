#include "routing/route_plan.h"

#include <algorithm>

namespace tagalong::routing {

int plan_slots(const RouterSpec& spec, const RoutingPolicy& policy) {
  return std::max(spec.top_k, policy.k_max) + spec.fused_shared_experts;
}

void RoutePlan::reserve(int max_rows, const RouterSpec& spec, const RoutingPolicy& policy) {
  const auto row_capacity = std::max(row_counts.size(), static_cast<std::size_t>(max_rows));
  const auto entry_capacity =
      std::max(entries.size(), row_capacity * static_cast<std::size_t>(plan_slots(spec, policy)));
  const auto expert_capacity = std::max(active.size(), static_cast<std::size_t>(spec.plan_experts()));
  active.resize(expert_capacity);
  offsets.resize(expert_capacity + 1);
  entries.resize(entry_capacity);
  row_counts.resize(row_capacity);
  row_ids.resize(entry_capacity);
  row_weights.resize(entry_capacity);
}

}  // namespace tagalong::routing
