#include "base/thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <new>
#include <system_error>
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
void bind(pthread_t thread, const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(cpu, &set);
  pthread_setaffinity_np(thread, sizeof(set), &set);
}

// The nodes to use: one, with all cores, where memory cannot be bound to those that there are.
std::vector<NumaNode> usable_nodes(const std::vector<int>& cores, Numa numa) {
  std::vector<NumaNode> one{{.id = 0, .cpus = cores}};
  if (numa == Numa::kOff) return one;
  std::vector<NumaNode> nodes = numa_nodes(cores);
  if (nodes.size() == 1) return one;
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* probe = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (probe == MAP_FAILED) throw std::bad_alloc();
  for (const NumaNode& node : nodes) {
    if (const int error = prefer_node(probe, page, node.id); error != 0) {
      spdlog::warn(
          "memory cannot be bound to NUMA node {} ({}): weights lie where the system puts them, and distant "
          "ones are read more slowly. Containers need the capability SYS_NICE; --numa off silences this",
          node.id, std::generic_category().message(error));
      nodes = std::move(one);
      break;
    }
  }
  munmap(probe, page);
  return nodes;
}

}  // namespace

ThreadPool::ThreadPool(WorkerPlaces places)
    : crews_(std::move(places.crews)),
      cpus_(std::move(places.cpus)),
      barrier_(crews_.workers()),
      shares_(static_cast<std::size_t>(crews_.workers())) {
  const int threads = crews_.workers();
  workers_.reserve(static_cast<std::size_t>(threads - 1));
  for (int worker = 1; worker < threads; ++worker) {
    workers_.emplace_back([this, worker] { work(worker); });
    if (!cpus_.empty()) bind(workers_.back().native_handle(), cpus_[static_cast<std::size_t>(worker)]);
  }
}

ThreadPool ThreadPool::for_this_machine(int threads, Numa numa) {
  return ThreadPool(
      place_workers(threads == 0 ? usable_cores() : threads, usable_nodes(physical_cores(), numa)));
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
  // It would wait for itself at the barrier.
  CHECK(!running_.load(std::memory_order_relaxed), "a task started a job of its own pool");
  running_.store(true, std::memory_order_relaxed);
  for (const Phase& phase : phases) {
    const auto crews = static_cast<std::size_t>(crews_.count());
    CHECK(phase.crew_tasks.empty() ||
              (phase.crew_tasks.size() == crews + 1 && phase.crew_tasks.back() == phase.tasks),
          "{} crews, {} tasks", crews, phase.tasks);
  }
  phases_ = phases;
  for (int worker = 0; worker < size(); ++worker) deal(phases.front(), 0, worker);
  jobs_.raise(++job_);
  take_part(0);
  running_.store(false, std::memory_order_relaxed);
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

// The workers that take part in a phase whose tasks are dealt to so many teams: the crews, or the whole pool
// as one.
Range ThreadPool::team(int teams, int workers, int index) const {
  if (teams == 1) return {0, workers == 0 ? size() : std::min(workers, size())};
  const Range crew = crews_.workers_of(index);
  if (workers == 0) return crew;
  return {crew.begin, crew.begin + std::clamp(crews_.share(workers, index).size(), 1, crew.size())};
}

Range ThreadPool::share_of(std::span<const int> crew_tasks, int workers, int worker) const {
  const int teams = static_cast<int>(crew_tasks.size()) - 1;
  const int own = teams == 1 ? 0 : crews_.crew_of(worker);
  const Range members = team(teams, workers, own);
  if (worker >= members.end) return {0, 0};
  const int begin = crew_tasks[static_cast<std::size_t>(own)];
  const std::int64_t tasks = crew_tasks[static_cast<std::size_t>(own) + 1] - begin;
  const int place = worker - members.begin;
  return {begin + static_cast<int>(tasks * place / members.size()),
          begin + static_cast<int>(tasks * (place + 1) / members.size())};
}

Range ThreadPool::share_of(const Phase& phase, int worker) const {
  const std::array all{0, phase.tasks};
  return share_of(phase.crew_tasks.empty() ? std::span<const int>(all) : phase.crew_tasks, phase.workers,
                  worker);
}

void ThreadPool::deal(const Phase& phase, std::size_t index, int worker) {
  if (phase.schedule == Schedule::kStatic) return;
  const auto [begin, end] = share_of(phase, worker);
  shares_[static_cast<std::size_t>(worker)].left[index % 2].store(pack(begin, end),
                                                                  std::memory_order_relaxed);
}

void ThreadPool::run_share(const Phase& phase, std::size_t index, int worker) {
  if (phase.schedule == Schedule::kStealing) {
    run_and_steal(phase, index, worker);
    return;
  }
  const auto [begin, end] = share_of(phase, worker);
  for (int task = begin; task < end; ++task) phase.body(task, worker);
}

// The own range from its front, then others' from their ends: their owners go on reading forwards. The own
// crew comes before those whose memory is far.
void ThreadPool::run_and_steal(const Phase& phase, std::size_t index, int worker) {
  const int teams = phase.crew_tasks.empty() ? 1 : static_cast<int>(phase.crew_tasks.size()) - 1;
  const int own = teams == 1 ? 0 : crews_.crew_of(worker);
  const Range home = team(teams, phase.workers, own);
  if (worker >= home.end) return;
  for (int i = 0; i < teams; ++i) {
    const Range members = team(teams, phase.workers, (own + i) % teams);
    for (int step = 0; step < members.size(); ++step) {
      const int other = members.begin + (worker - home.begin + step) % members.size();
      auto& left = shares_[static_cast<std::size_t>(other)].left[index % 2];
      const Side side = other == worker ? Side::kFirst : Side::kLast;
      for (int task = take(left, side); task >= 0; task = take(left, side)) phase.body(task, worker);
    }
  }
}

}  // namespace tagalong::base
