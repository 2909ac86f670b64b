// Threads that live as long as the pool and run one job at a time: a few parallel loops, one after another.
//
// run() and run_phases() are called by the owner's thread only, which works too as worker 0. Tasks are dealt
// as contiguous ranges, one per worker, fixed by the counts alone; a phase may let workers that are done take
// tasks from the end of another's range. On a machine with several NUMA nodes the workers form crews, and a
// phase may say which tasks are whose. Between jobs the workers spin for a moment and then sleep. A task
// must not throw, and must not start a job of its own pool: that ends the program instead of hanging it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/barrier.h"
#include "base/node_crews.h"
#include "base/numa.h"
#include "base/range.h"
#include "base/waitable_counter.h"

namespace tagalong::base {

// A borrowed callable: valid only during the call it is passed to. Never allocates.
class TaskRef {
 public:
  template <typename F>
  TaskRef(F& body)  // NOLINT: converts from a callable on purpose
      : object_(const_cast<void*>(static_cast<const void*>(&body))),
        call_([](void* object, int task, int worker) { (*static_cast<F*>(object))(task, worker); }) {}
  void operator()(int task, int worker) const { call_(object_, task, worker); }

 private:
  void* object_;
  void (*call_)(void*, int, int);
};

// Who runs a task: always the same worker, or, at the end of a loop, whoever is idle. The results must not
// depend on it.
enum class Schedule : std::uint8_t { kStatic, kStealing };

// A parallel loop: body(task, worker) once for each task in [0, tasks).
struct Phase {
  int tasks;
  TaskRef body;
  Schedule schedule = Schedule::kStatic;
  int workers = 0;  // at most so many take part, but one of each crew that has tasks; 0: all
  // [crews + 1] the first task of each crew of the pool, then their number. Without it the tasks are no
  // crew's own.
  std::span<const int> crew_tasks = {};
};

class ThreadPool {
 public:
  // `threads` >= 1 workers in all, the caller among them; the kernel decides where they run.
  explicit ThreadPool(int threads) : ThreadPool(NodeCrews(threads)) {}
  // The same, in crews.
  explicit ThreadPool(const NodeCrews& crews) : ThreadPool(WorkerPlaces{.crews = crews, .cpus = {}}) {}
  // What a program wants on its machine: `threads` workers, or for 0 as many as usable_cores(). A pool with a
  // thread for each physical core is pinned, one to a core. A smaller one is not, since two of them would
  // choose the same cores; on a machine with several nodes its workers keep to their node. There the workers
  // form a crew for each node, unless `numa` is off or memory cannot be bound to nodes, which is said.
  static ThreadPool for_this_machine(int threads, Numa numa = Numa::kAuto);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  const NodeCrews& crews() const { return crews_; }

  // Binds the calling thread to where worker 0 belongs, if the pool is pinned. For the thread that is going
  // to call run() from now on; threads that it starts later inherit the binding.
  void pin_caller() const;

  // One loop; returns when all tasks are done. What they wrote is visible to the caller and to later loops.
  template <typename F>
  void run(int tasks, F&& body) {
    if (tasks <= 1 || workers_.empty()) {
      for (int task = 0; task < tasks; ++task) body(task, 0);
      return;
    }
    const Phase phase{.tasks = tasks, .body = TaskRef(body)};
    start({&phase, 1});
  }

  // The tasks that a phase with these crew_tasks and workers deals to a worker.
  Range share_of(std::span<const int> crew_tasks, int workers, int worker) const;

  // Loops in order, each seeing what the ones before it wrote. Workers go from one to the next through a
  // barrier, without coming back to the caller.
  void run_phases(std::span<const Phase> phases);

 private:
  // What is left of a worker's range: begin in the low half, end in the high one. Two, used in turn by the
  // phases: a range is dealt while the phase before it runs.
  struct alignas(kCacheLine) Share {
    std::atomic<std::uint64_t> left[2] = {0, 0};
  };
  explicit ThreadPool(WorkerPlaces places);
  void start(std::span<const Phase> phases);
  void work(int worker);
  void take_part(int worker);
  void run_share(const Phase& phase, std::size_t index, int worker);
  void run_and_steal(const Phase& phase, std::size_t index, int worker);
  Range team(int teams, int workers, int index) const;
  Range share_of(const Phase& phase, int worker) const;
  void deal(const Phase& phase, std::size_t index, int worker);

  NodeCrews crews_;
  std::vector<std::vector<int>> cpus_;  // [threads] where a worker may run; empty: anywhere
  std::span<const Phase> phases_;
  std::uint32_t job_ = 0;
  bool stop_ = false;
  std::atomic<bool> running_ = false;  // a job
  WaitableCounter jobs_;               // raised to start a job
  Barrier barrier_;                    // at the end of every phase
  std::vector<Share> shares_;
  std::vector<std::thread> workers_;
};

}  // namespace tagalong::base
