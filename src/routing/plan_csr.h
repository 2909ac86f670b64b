// The by-expert view of a plan, built from its by-row view. Internal to the room.
#pragma once

#include <cstdint>
#include <vector>

#include "routing/route_plan.h"

namespace tagalong::routing {

// Fills active, offsets and entries from the rows. `positions` is working memory of at least plan.experts.
void build_csr(RoutePlan& plan, std::vector<std::int32_t>& positions);

}  // namespace tagalong::routing
