// Group-limited selection: a row may use the experts of its best groups only. Internal to the room.
#pragma once

#include <cstdint>

#include "routing/router_spec.h"

namespace tagalong::routing {

// Masks the codes of every group but the spec's topk_groups best ones. Groups rank by their score, ties to
// the lower group; a NaN key counts as -infinity in a score.
void mask_other_groups(const RouterSpec& spec, std::uint32_t* codes);

}  // namespace tagalong::routing
