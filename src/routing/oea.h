// The voting phase of OEA, shared by the policies that start from its guarantee. Internal to the room.
#pragma once

#include "routing/policy_step.h"

namespace tagalong::routing {

// Adds each decode row's votes to the base set: its k0 best experts, fewer once they hold the share p.
void vote(const PolicyStep& step);

// Whether the votes and the piggyback cannot differ from exact routing: every row votes all its k.
bool votes_everything(const PolicyStep& step);

// Checks that a budget of experts leaves room for a row's k.
void check_budget(const RoutingPolicy& policy, const RouterSpec& spec, std::string_view name);

// Checks k0, k_max and max_rank of a policy that votes against a layer.
void check_votes(const RoutingPolicy& policy, const RouterSpec& spec, std::string_view name);

}  // namespace tagalong::routing
