// What routing costs per call on one core. "share_of_exact" is the time divided by that of the exact selector
// on the same rows, both as the least of the repetitions inside the run, which a busy machine disturbs least.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "routing/route.h"

namespace tagalong::routing {
namespace {

struct Bench {
  RouterSpec spec;
  std::vector<float> logits;
  std::vector<RowRole> roles;
  RouteScratch scratch;
  RoutePlan plan;
  // Several batches in turn, so that branches are not learnt by heart.
  static constexpr std::size_t kBatches = 16;
  std::size_t next_batch = 0;

  explicit Bench(int rows, RouteIsa isa = RouteIsa::kBest, int experts = 256, int k = 8) : scratch(isa) {
    spec.scoring = Scoring::kSigmoid;
    spec.experts = experts;
    spec.top_k = k;
    spec.scaling = 2.5F;
    std::mt19937 random(7);
    std::normal_distribution<float> normal(0.0F, 2.0F);
    for (int i = 0; i < experts; ++i) spec.correction_bias.push_back(6.9F + 0.02F * normal(random));
    logits.resize(kBatches * static_cast<std::size_t>(rows) * static_cast<std::size_t>(experts));
    for (float& l : logits) l = normal(random);
    roles.assign(static_cast<std::size_t>(rows), RowRole::kDecode);
    scratch.reserve(rows, spec);
    plan.reserve(rows, spec);
  }

  double seconds(const RoutingPolicy& policy) {
    const std::size_t size = logits.size() / kBatches;
    const std::span<const float> batch =
        std::span<const float>(logits).subspan(next_batch++ % kBatches * size, size);
    const auto start = std::chrono::steady_clock::now();
    route(batch, spec, policy, roles, scratch, plan);
    benchmark::DoNotOptimize(plan.entries.data());
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
};

void run(benchmark::State& state, Bench& bench, const RoutingPolicy& policy) {
  double least = 1e9;
  for (auto _ : state) {
    const double seconds = bench.seconds(policy);
    state.SetIterationTime(seconds);
    least = std::min(least, seconds);
  }
  double exact = 1e9;
  for (int i = 0; i < 2000 / std::max(1, bench.plan.rows / 16); ++i)
    exact = std::min(exact, bench.seconds({}));
  state.counters["min_us"] = least * 1e6;
  state.counters["ns_per_row"] = least * 1e9 / static_cast<double>(bench.roles.size());
  state.counters["share_of_exact"] = least / exact;
}

void biased_top8_of_256(benchmark::State& state) {
  Bench bench(static_cast<int>(state.range(0)));
  run(state, bench, {});
}

void simplified_oea(benchmark::State& state) {
  Bench bench(static_cast<int>(state.range(0)));
  run(state, bench, parse_policy("oea:k0=4"));
}

void by_instruction_set(benchmark::State& state) {
  const auto isa = static_cast<RouteIsa>(state.range(0));
  if (!available(isa)) {
    state.SkipWithError("this CPU does not have it");
    return;
  }
  Bench bench(16, isa);
  state.SetLabel(bench.scratch.kernels->name);
  run(state, bench, {});
}

void top32_of_512(benchmark::State& state) {
  Bench bench(16, RouteIsa::kBest, 512, 32);
  run(state, bench, {});
}

// The two inner loops alone, in nanoseconds per row.
void keys_of_a_row(benchmark::State& state) {
  Bench bench(16);
  const RowKernels& kernels = *bench.scratch.kernels;
  for (auto _ : state) {
    kernels.codes(Scoring::kSigmoid, bench.logits.data(), bench.spec.correction_bias.data(), 256, {},
                  bench.scratch.codes.data());
    benchmark::ClobberMemory();
  }
}

void top_k_of_a_row(benchmark::State& state) {
  Bench bench(16);
  bench.seconds(parse_policy("oea:k0=4"));  // leaves the keys of all rows behind, as exact routing does not
  int row = 0;
  for (auto _ : state) {
    bench.scratch.kernels->top_k(bench.scratch.codes.data() + 256 * (row++ % 16), 256, nullptr, 8,
                                 bench.scratch.exact_ids.data());
    benchmark::ClobberMemory();
  }
}

BENCHMARK(keys_of_a_row);
BENCHMARK(top_k_of_a_row);
BENCHMARK(biased_top8_of_256)->RangeMultiplier(4)->Range(1, 4096)->Arg(16)->UseManualTime();
BENCHMARK(simplified_oea)->RangeMultiplier(4)->Range(16, 4096)->UseManualTime();
BENCHMARK(by_instruction_set)->DenseRange(1, 3)->UseManualTime();
BENCHMARK(top32_of_512)->UseManualTime();

}  // namespace
}  // namespace tagalong::routing
