#include "base/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/cpu_info.h"

namespace tagalong::base {

namespace {

constexpr std::uint64_t pack(int begin, int end) {
  return static_cast<std::uint32_t>(begin) | std::uint64_t{static_cast<std::uint32_t>(end)} << 32;
}
constexpr int begin_of(std::uint64_t range) { return static_cast<int>(static_cast<std::uint32_t>(range)); }
constexpr int end_of(std::uint64_t range) { return static_cast<int>(range >> 32); }

enum class Side : std::uint8_t { kFirst, kLast };

// Takes a task from a range, or returns -1. Relaxed: the tasks' data are ordered by the barriers around the
// phase, and a range is only ever made smaller during it.
int take(std::atomic<std::uint64_t>& left, Side side) {
  std::uint64_t range = left.load(std::memory_order_relaxed);
  for (;;) {
    const int begin = begin_of(range);
    const int end = end_of(range);
    if (begin >= end) return -1;
    const std::uint64_t rest = side == Side::kFirst ? pack(begin + 1, end) : pack(begin, end - 1);
    if (left.compare_exchange_weak(range, rest, std::memory_order_relaxed)) {
      return side == Side::kFirst ? begin : end - 1;
    }
  }
}

// A binding that the system refuses, as when the core was taken from us meanwhile, costs speed only.
void bind(pthread_t thread, int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  pthread_setaffinity_np(thread, sizeof(set), &set);
}

}  // namespace

ThreadPool::ThreadPool(int threads, std::vector<int> cpus)
    : cpus_(std::move(cpus)), barrier_(threads), shares_(static_cast<std::size_t>(threads)) {
  CHECK(cpus_.empty() || static_cast<int>(cpus_.size()) == threads, "{} threads, {} cores", threads,
        cpus_.size());
  workers_.reserve(static_cast<std::size_t>(threads - 1));
  for (int worker = 1; worker < threads; ++worker) {
    workers_.emplace_back([this, worker] { work(worker); });
    if (!cpus_.empty()) bind(workers_.back().native_handle(), cpus_[static_cast<std::size_t>(worker)]);
  }
}

ThreadPool ThreadPool::for_this_machine(int threads) {
  std::vector<int> cores = physical_cores();
  if (threads == 0) threads = usable_cores();
  if (threads != static_cast<int>(cores.size())) cores.clear();
  return {threads, std::move(cores)};
}

ThreadPool::~ThreadPool() {
  stop_ = true;
  jobs_.raise(++job_);
  for (auto& worker : workers_) worker.join();
}

void ThreadPool::pin_caller() const {
  if (!cpus_.empty()) bind(pthread_self(), cpus_.front());
}

void ThreadPool::run_phases(std::span<const Phase> phases) {
  const bool alone = std::all_of(phases.begin(), phases.end(), [](const Phase& p) { return p.tasks <= 1; });
  if (!alone && !workers_.empty()) {
    start(phases);
    return;
  }
  for (const Phase& phase : phases) {
    for (int task = 0; task < phase.tasks; ++task) phase.body(task, 0);
  }
}

void ThreadPool::start(std::span<const Phase> phases) {
  phases_ = phases;
  for (int worker = 0; worker < size(); ++worker) deal(phases.front(), 0, worker);
  jobs_.raise(++job_);
  take_part(0);
}

void ThreadPool::work(int worker) {
  for (std::uint32_t job = 1;; ++job) {
    jobs_.wait(job);
    if (stop_) return;
    take_part(worker);
  }
}

void ThreadPool::take_part(int worker) {
  // A copy: after the last barrier the caller may already be starting the next job.
  const std::span<const Phase> phases = phases_;
  for (std::size_t i = 0; i < phases.size(); ++i) {
    // Dealt a phase ahead, so that the others can take the tasks of a worker that the system lets wait.
    if (i + 1 < phases.size()) deal(phases[i + 1], i + 1, worker);
    run_share(phases[i], i, worker);
    barrier_.arrive(worker);
  }
}

Range ThreadPool::share_of(int tasks, int workers, int worker) const {
  const std::int64_t sharers = participants(workers);
  if (worker >= sharers) return {0, 0};
  return {static_cast<int>(tasks * std::int64_t{worker} / sharers),
          static_cast<int>(tasks * (std::int64_t{worker} + 1) / sharers)};
}

void ThreadPool::deal(const Phase& phase, std::size_t index, int worker) {
  if (phase.schedule == Schedule::kStatic) return;
  const auto [begin, end] = share_of(phase.tasks, phase.workers, worker);
  shares_[static_cast<std::size_t>(worker)].left[index % 2].store(pack(begin, end),
                                                                  std::memory_order_relaxed);
}

void ThreadPool::run_share(const Phase& phase, std::size_t index, int worker) {
  if (phase.schedule == Schedule::kStatic) {
    const auto [begin, end] = share_of(phase.tasks, phase.workers, worker);
    for (int task = begin; task < end; ++task) phase.body(task, worker);
    return;
  }
  const int workers = participants(phase.workers);
  if (worker >= workers) return;
  // The own range from its front, then others' from their ends: their owners go on reading forwards.
  for (int step = 0; step < workers; ++step) {
    auto& left = shares_[static_cast<std::size_t>((worker + step) % workers)].left[index % 2];
    const Side side = step == 0 ? Side::kFirst : Side::kLast;
    for (int task = take(left, side); task >= 0; task = take(left, side)) phase.body(task, worker);
  }
}

}  // namespace tagalong::base
