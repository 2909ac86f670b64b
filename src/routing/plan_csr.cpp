#include "routing/plan_csr.h"

#include <algorithm>
#include <cstddef>

namespace tagalong::routing {

void build_csr(RoutePlan& plan, std::vector<std::int32_t>& positions) {
  const auto experts = static_cast<std::size_t>(plan.experts);
  const auto slots = static_cast<std::size_t>(plan.slots);
  std::fill_n(positions.begin(), experts, 0);
  for (std::size_t row = 0; row < static_cast<std::size_t>(plan.rows); ++row) {
    for (const std::int32_t id : plan.ids_of(static_cast<int>(row)))
      ++positions[static_cast<std::size_t>(id)];
  }
  // Counted in locals: through the plan each expert would wait for the store of the one before.
  std::int32_t* const active = plan.active.data();
  std::int32_t* const offsets = plan.offsets.data();
  std::size_t active_count = 0;
  std::int32_t total = 0;
  for (std::size_t id = 0; id < experts; ++id) {
    const std::int32_t size = positions[id];
    positions[id] = total;
    // Written always and kept if used: which experts are active is nothing a processor could foresee.
    active[active_count] = static_cast<std::int32_t>(id);
    offsets[active_count] = total;
    active_count += static_cast<std::size_t>(size != 0);
    total += size;
  }
  offsets[active_count] = total;
  plan.active_count = static_cast<int>(active_count);
  for (std::size_t row = 0; row < static_cast<std::size_t>(plan.rows); ++row) {
    for (std::size_t slot = row * slots, end = slot + static_cast<std::size_t>(plan.row_counts[row]);
         slot < end; ++slot) {
      auto& position = positions[static_cast<std::size_t>(plan.row_ids[slot])];
      plan.entries[static_cast<std::size_t>(position++)] = {static_cast<std::int32_t>(row),
                                                            plan.row_weights[slot]};
    }
  }
}

}  // namespace tagalong::routing
