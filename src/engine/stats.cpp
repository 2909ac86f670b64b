#include "engine/stats.h"

namespace tagalong::engine {

void RoutingTotals::add(const routing::RouteStats& layer) {
  const auto count = [](int n) { return static_cast<std::uint64_t>(n); };
  layer_steps += 1;
  rows += count(layer.rows);
  decode_rows += count(layer.decode_rows);
  experts += count(layer.experts);
  experts_exact += count(layer.experts_exact);
  replaced_slots += count(layer.replaced_slots);
  short_rows += count(layer.short_rows);
  nan_rows += count(layer.nan_rows);
  kept_mass += layer.kept_mass * layer.decode_rows;
}

}  // namespace tagalong::engine
