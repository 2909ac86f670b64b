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

void RoutingTotals::add(const RoutingTotals& other) {
  layer_steps += other.layer_steps;
  rows += other.rows;
  decode_rows += other.decode_rows;
  experts_exact += other.experts_exact;
  experts += other.experts;
  replaced_slots += other.replaced_slots;
  short_rows += other.short_rows;
  nan_rows += other.nan_rows;
  kept_mass += other.kept_mass;
}

RoutingStatistics::RoutingStatistics(int layers, int experts)
    : layers_(layers), experts_(experts), data_(std::make_unique<Layer[]>(static_cast<std::size_t>(layers))) {
  for (int i = 0; i < layers; ++i) {
    data_[static_cast<std::size_t>(i)].tokens =
        std::make_unique<std::atomic<std::uint64_t>[]>(static_cast<std::size_t>(experts));
  }
}

const RoutingStatistics::Layer& RoutingStatistics::layer_at(int layer) const {
  CHECK(layer >= 0 && layer < layers_, "layer {} of {}", layer, layers_);
  return data_[static_cast<std::size_t>(layer)];
}

void RoutingStatistics::add(int layer, const RoutePlan& plan) {
  CHECK(layer >= 0 && layer < layers_ && plan.experts <= experts_, "layer {}, {} experts", layer,
        plan.experts);
  Layer& data = data_[static_cast<std::size_t>(layer)];
  const std::uint64_t version = data.version.load(std::memory_order_relaxed);
  // The stores of the counters release, so that none of them is seen before the version is odd.
  data.version.store(version + 1, std::memory_order_relaxed);

  const RouteStats& stats = plan.stats;
  const std::array<int, kCounts.size()> amounts = {1,
                                                   stats.rows,
                                                   stats.decode_rows,
                                                   stats.experts_exact,
                                                   stats.experts,
                                                   stats.replaced_slots,
                                                   stats.short_rows,
                                                   stats.nan_rows};
  for (std::size_t i = 0; i < amounts.size(); ++i) {
    add_to(data.counts[i], static_cast<std::uint64_t>(amounts[i]));
  }
  add_to(data.kept_mass, stats.kept_mass * stats.decode_rows);
  for (int i = 0; i < plan.active_count; ++i) {
    add_to(data.tokens[static_cast<std::size_t>(plan.active_experts()[static_cast<std::size_t>(i)])],
           static_cast<std::uint64_t>(plan.entries_of(i).size()));
  }

  data.version.store(version + 2, std::memory_order_release);
}

template <typename Body>
void RoutingStatistics::between_steps(const Layer& data, Body body) {
  while (true) {
    const std::uint64_t before = data.version.load(std::memory_order_acquire);
    body();
    // Whoever saw a counter of a later add() sees that add()'s version here, for the counters were acquired.
    const std::uint64_t after = data.version.load(std::memory_order_relaxed);
    if (before == after && before % 2 == 0) return;
  }
}

void RoutingStatistics::read(const Layer& data, RoutingTotals& totals) {
  for (std::size_t i = 0; i < kCounts.size(); ++i) {
    totals.*kCounts[i] = data.counts[i].load(std::memory_order_acquire);
  }
  totals.kept_mass = data.kept_mass.load(std::memory_order_acquire);
}

LayerTotals RoutingStatistics::snapshot(int layer) const {
  const Layer& data = layer_at(layer);
  LayerTotals totals;
  totals.tokens.resize(static_cast<std::size_t>(experts_));
  between_steps(data, [&] {
    read(data, totals);
    for (std::size_t id = 0; id < totals.tokens.size(); ++id) {
      totals.tokens[id] = data.tokens[id].load(std::memory_order_acquire);
    }
  });
  return totals;
}

RoutingTotals RoutingStatistics::totals() const {
  RoutingTotals sum;
  for (int layer = 0; layer < layers_; ++layer) {
    const Layer& data = layer_at(layer);
    RoutingTotals totals;
    between_steps(data, [&] { read(data, totals); });
    sum.add(totals);
  }
  return sum;
}

}  // namespace tagalong::routing
