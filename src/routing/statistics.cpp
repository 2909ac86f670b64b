#include "routing/statistics.h"

#include <algorithm>

#include "base/check.h"

namespace tagalong::routing {

namespace {

// With one writer a load and a store do what an atomic addition would, without a locked instruction.
template <typename T>
void add_to(std::atomic<T>& counter, T amount) {
  counter.store(counter.load(std::memory_order_relaxed) + amount, std::memory_order_release);
}

}  // namespace

double LayerTotals::balancedness(int routed_experts) const {
  const auto end = tokens.begin() + std::min<std::ptrdiff_t>(routed_experts, std::ssize(tokens));
  std::uint64_t sum = 0;
  std::uint64_t most = 0;
  for (auto it = tokens.begin(); it != end; ++it) {
    sum += *it;
    most = std::max(most, *it);
  }
  return most == 0
             ? 1.0
             : static_cast<double>(sum) / static_cast<double>(routed_experts) / static_cast<double>(most);
}

RoutingStatistics::RoutingStatistics(int layers, int experts)
    : layers_(layers), experts_(experts), data_(std::make_unique<Layer[]>(static_cast<std::size_t>(layers))) {
  for (int i = 0; i < layers; ++i) {
    data_[static_cast<std::size_t>(i)].tokens =
        std::make_unique<std::atomic<std::uint64_t>[]>(static_cast<std::size_t>(experts));
  }
}

void RoutingStatistics::add(int layer, const RoutePlan& plan) {
  CHECK(layer >= 0 && layer < layers_ && plan.experts <= experts_, "layer {}, {} experts", layer,
        plan.experts);
  Layer& data = data_[static_cast<std::size_t>(layer)];
  const std::uint64_t version = data.version.load(std::memory_order_relaxed);
  // The stores of the counters release, so that none of them is seen before the version is odd.
  data.version.store(version + 1, std::memory_order_relaxed);

  const RouteStats& stats = plan.stats;
  const auto add_count = [&](Counter counter, int amount) {
    add_to(data.counters[counter], static_cast<std::uint64_t>(amount));
  };
  add_count(kSteps, 1);
  add_count(kRows, stats.rows);
  add_count(kDecodeRows, stats.decode_rows);
  add_count(kExpertsExact, stats.experts_exact);
  add_count(kExperts, stats.experts);
  add_count(kReplaced, stats.replaced_slots);
  add_count(kShort, stats.short_rows);
  add_count(kNan, stats.nan_rows);
  add_to(data.kept_mass, stats.kept_mass * stats.decode_rows);
  for (int i = 0; i < plan.active_count; ++i) {
    add_to(data.tokens[static_cast<std::size_t>(plan.active_experts()[static_cast<std::size_t>(i)])],
           static_cast<std::uint64_t>(plan.entries_of(i).size()));
  }

  data.version.store(version + 2, std::memory_order_release);
}

LayerTotals RoutingStatistics::snapshot(int layer) const {
  CHECK(layer >= 0 && layer < layers_, "layer {}", layer);
  const Layer& data = data_[static_cast<std::size_t>(layer)];
  LayerTotals totals;
  totals.tokens.resize(static_cast<std::size_t>(experts_));
  while (true) {
    const std::uint64_t before = data.version.load(std::memory_order_acquire);
    const auto read = [&](Counter counter) { return data.counters[counter].load(std::memory_order_acquire); };
    totals.steps = read(kSteps);
    totals.rows = read(kRows);
    totals.decode_rows = read(kDecodeRows);
    totals.experts_exact = read(kExpertsExact);
    totals.experts = read(kExperts);
    totals.replaced_slots = read(kReplaced);
    totals.short_rows = read(kShort);
    totals.nan_rows = read(kNan);
    totals.kept_mass = data.kept_mass.load(std::memory_order_acquire);
    for (std::size_t id = 0; id < totals.tokens.size(); ++id) {
      totals.tokens[id] = data.tokens[id].load(std::memory_order_acquire);
    }
    // Whoever saw a counter of a later add() sees that add()'s version here, for the counters were acquired.
    const std::uint64_t after = data.version.load(std::memory_order_relaxed);
    if (before == after && before % 2 == 0) return totals;
  }
}

}  // namespace tagalong::routing
