// What routing costs per call on one core. "share_of_exact" is the time divided by that of the exact selector
// on the same rows, both as the least of the repetitions inside the run, which a busy machine disturbs least.
// One set of instructions alone: --benchmark_filter=isa:2 (1 scalar, 2 AVX2, 3 AVX-512).
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

  explicit Bench(int rows, RouteIsa isa, int experts = 256, int k = 8) : scratch(isa) {
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

// Whether to go on with state.range(0) as the instruction set; names it in the report.
bool name_isa(benchmark::State& state) {
  const auto isa = static_cast<RouteIsa>(state.range(0));
  if (!available(isa)) {
    state.SkipWithError("this CPU does not have it");
    return false;
  }
  state.SetLabel(row_kernels(isa).name);
  return true;
}

// Arguments: instruction set, rows.
void biased_top8_of_256(benchmark::State& state) {
  if (!name_isa(state)) return;
  Bench bench(static_cast<int>(state.range(1)), static_cast<RouteIsa>(state.range(0)));
  run(state, bench, {});
}

void simplified_oea(benchmark::State& state) {
  if (!name_isa(state)) return;
  Bench bench(static_cast<int>(state.range(1)), static_cast<RouteIsa>(state.range(0)));
  run(state, bench, parse_policy("oea:k0=4"));
}

void top32_of_512(benchmark::State& state) {
  if (!name_isa(state)) return;
  Bench bench(16, static_cast<RouteIsa>(state.range(0)), 512, 32);
  run(state, bench, {});
}

// The two inner loops alone, in nanoseconds per row.
void keys_of_a_row(benchmark::State& state) {
  if (!name_isa(state)) return;
  Bench bench(16, static_cast<RouteIsa>(state.range(0)));
  const RowKernels& kernels = *bench.scratch.kernels;
  for (auto _ : state) {
    kernels.codes(Scoring::kSigmoid, bench.logits.data(), bench.spec.correction_bias.data(), 256, {},
                  bench.scratch.codes.data());
    benchmark::ClobberMemory();
  }
}

void top_k_of_a_row(benchmark::State& state) {
  if (!name_isa(state)) return;
  Bench bench(16, static_cast<RouteIsa>(state.range(0)));
  bench.seconds(parse_policy("oea:k0=4"));  // leaves the keys of all rows behind, as exact routing does not
  int row = 0;
  for (auto _ : state) {
    bench.scratch.kernels->top_k(bench.scratch.codes.data() + 256 * (row++ % 16), 256, nullptr, 8,
                                 bench.scratch.exact_ids.data());
    benchmark::ClobberMemory();
  }
}

void each_isa(benchmark::internal::Benchmark* bench) { bench->DenseRange(1, 3); }

// The scalar reference at the rows of the bars only; the others up to 4096 rows.
void isas_and_rows(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"isa", "rows"})->Args({1, 16})->UseManualTime();
  for (const int isa : {2, 3}) {
    for (int rows = 1; rows <= 4096; rows *= 4) bench->Args({isa, rows});
  }
}

BENCHMARK(keys_of_a_row)->Apply(each_isa);
BENCHMARK(top_k_of_a_row)->Apply(each_isa);
BENCHMARK(biased_top8_of_256)->Apply(isas_and_rows);
BENCHMARK(simplified_oea)->Apply(isas_and_rows);
BENCHMARK(top32_of_512)->Apply(each_isa)->UseManualTime();

}  // namespace
}  // namespace tagalong::routing
