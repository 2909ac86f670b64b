#include "layer_bench.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

#include "engine/logits_hash.h"
#include "synthetic_layer.h"

namespace tagalong::tools {

namespace {

constexpr int kCallsPerRound = 4;

struct Samples {
  std::vector<double> microseconds;
  std::vector<double> floors;
  std::vector<double> shares;
  double experts = 0;
  double experts_exact = 0;
  double kept_mass = 0;
  std::uint64_t hash = 0;
};

}  // namespace

std::vector<LayerResult> bench_layer(const nn::Moe& layer, int hidden, const std::vector<LayerCase>& cases,
                                     int rounds, const kernels::Kernels& kernels, base::ThreadPool& pool,
                                     Ceilings& ceilings, const std::function<void()>& progress) {
  int max_rows = 1;
  for (const LayerCase& c : cases) max_rows = std::max(max_rows, c.rows);
  const int intermediate = layer.experts.front().gate_up.outputs();
  const int shared = layer.spec.fused_shared_experts > 0 ? layer.experts.back().gate_up.outputs() : 0;
  std::vector<nn::MoeWorkspace> routers;
  std::vector<Samples> samples(cases.size());
  for (const LayerCase& c : cases) {
    routing::validate(c.policy, layer.spec, "policy");
    routers.emplace_back(layer.spec, c.rows, c.policy);
  }
  nn::GatedWorkspace gated(max_rows, hidden, max_rows * (layer.spec.top_k + layer.spec.fused_shared_experts),
                           std::max(intermediate, shared), layer.spec.plan_experts());
  std::vector<float> x(static_cast<std::size_t>(max_rows) * static_cast<std::size_t>(hidden));
  std::vector<float> out(x.size());
  // What a call streams: each expert that it activates, and router and shared expert always.
  const auto expert = static_cast<double>(expert_bytes(layer));
  const double always = static_cast<double>(layer.router.bytes()) +
                        (shared > 0 ? static_cast<double>(layer.experts.back().bytes()) : 0.0);
  const double row_products = 3.0 * hidden * (intermediate * layer.spec.top_k + shared);
  std::mt19937 random(7);
  std::normal_distribution<float> normal;

  for (int round = 0; round <= rounds; ++round) {
    ceilings.sample();
    for (int call = 0; call < kCallsPerRound; ++call) {
      for (float& v : x) v = normal(random);
      // Nothing is left in the caches then, or the cases, whose rows are the same, would find each other's
      // experts; and the threads are awake.
      double before = ceilings.sample_bandwidth();
      for (std::size_t i = 0; i < cases.size(); ++i) {
        const auto rows = static_cast<std::size_t>(cases[i].rows);
        const std::vector<routing::RowRole> roles(rows, routing::RowRole::kDecode);
        const auto start = std::chrono::steady_clock::now();
        layer.apply({kernels, pool, cases[i].tuning}, x.data(), roles, hidden, 0, cases[i].policy, routers[i],
                    gated, out.data(), nullptr);
        const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
        const double after = ceilings.sample_bandwidth();
        const double bandwidth = (std::exchange(before, after) + after) / 2;
        if (round == 0) continue;  // warms up threads and pages
        const routing::RouteStats& stats = routers[i].plan.stats;
        const double floor = 1e6 * std::max((stats.experts * expert + always) / bandwidth,
                                            cases[i].rows * row_products / ceilings.products_per_second());
        samples[i].microseconds.push_back(time.count());
        samples[i].floors.push_back(floor);
        samples[i].shares.push_back(floor / time.count());
        samples[i].experts += stats.experts;
        samples[i].experts_exact += stats.experts_exact;
        samples[i].kept_mass += stats.kept_mass;
        const auto written = std::span(out).first(rows * static_cast<std::size_t>(hidden));
        samples[i].hash = samples[i].hash * 31 + engine::hash_logits(written);
      }
    }
    if (round > 0) progress();
  }

  std::vector<LayerResult> results;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const double calls = static_cast<double>(samples[i].microseconds.size());
    LayerResult r;
    r.microseconds = median(samples[i].microseconds);
    r.experts = samples[i].experts / calls;
    r.experts_exact = samples[i].experts_exact / calls;
    r.kept_mass = samples[i].kept_mass / calls;
    r.hash = samples[i].hash;
    r.bytes = r.experts * expert + always;
    r.floor_microseconds = median(samples[i].floors);
    r.share = median(samples[i].shares);
    results.push_back(r);
  }
  return results;
}

}  // namespace tagalong::tools
