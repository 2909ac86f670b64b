// The price of meeting: a barrier between two phases of a job, and a whole job from the caller's call to its
// return. Run alone on a quiet machine.
#include <benchmark/benchmark.h>

#include <thread>
#include <vector>

#include "base/cpu_info.h"
#include "base/thread_pool.h"

namespace tagalong::base {
namespace {

constexpr int kBarriers = 10'000;

// Runs `body(pool)` on a thread of its own: the binding of a caller to its core must not pass on to the pools
// of later benchmarks.
template <typename Body>
void with_pool(benchmark::State& state, Body body) {
  std::thread([&] {
    ThreadPool pool = ThreadPool::for_this_machine(static_cast<int>(state.range(0)));
    pool.pin_caller();
    body(pool);
  }).join();
}

void barrier(benchmark::State& state) {
  with_pool(state, [&state](ThreadPool& pool) {
    auto nothing = [](int, int) {};
    const std::vector<Phase> phases(kBarriers, Phase{pool.size(), nothing});
    for (auto _ : state) pool.run_phases(phases);
    state.counters["s/barrier"] = benchmark::Counter(
        kBarriers, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  });
}

void job(benchmark::State& state) {
  with_pool(state, [&state](ThreadPool& pool) {
    for (auto _ : state) pool.run(pool.size(), [](int, int) {});
  });
}

void all_sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->UseRealTime();
  for (int threads = 2; threads <= usable_cores(); threads *= 2) benchmark->Arg(threads);
}

BENCHMARK(barrier)->Apply(all_sizes);
BENCHMARK(job)->Apply(all_sizes);

}  // namespace
}  // namespace tagalong::base
