#include "nn/moe.h"

namespace tagalong::nn {

MoeWorkspace::MoeWorkspace(const routing::RouterSpec& spec, int max_rows,
                           const routing::RoutingPolicy& policy)
    : logits(static_cast<std::size_t>(max_rows) * static_cast<std::size_t>(spec.experts)),
      groups(static_cast<std::size_t>(spec.plan_experts())) {
  scratch.reserve(max_rows, spec, policy);
  plan.reserve(max_rows, spec, policy);
}

void Moe::apply(const Context& context, const float* x, std::span<const routing::RowRole> roles, int hidden,
                int layer, const routing::RoutingPolicy& policy, MoeWorkspace& workspace,
                GatedWorkspace& gated, float* out, routing::RouteObserver* observer) const {
  const int rows = static_cast<int>(roles.size());
  router.apply(context, x, rows, workspace.logits.data(), workspace.unused);
  const std::size_t logit_count = static_cast<std::size_t>(rows) * static_cast<std::size_t>(spec.experts);
  routing::route({.logits = workspace.logits.span().first(logit_count),
                  .roles = roles,
                  .layer = layer,
                  .step = workspace.calls++},
                 spec, policy, workspace.scratch, workspace.plan);
  if (observer != nullptr) observer->routed(layer, roles, workspace.plan);

  const auto active = workspace.plan.active_experts();
  for (std::size_t i = 0; i < active.size(); ++i) {
    workspace.groups[i] = {&experts[active[i]], workspace.plan.entries_of(static_cast<int>(i))};
  }
  apply_gated_experts(context, std::span(workspace.groups).first(active.size()), x, rows, hidden, gated, out);
}

}  // namespace tagalong::nn
