// Threads that live as long as the pool and run one parallel loop at a time.
//
// run() is called by the owner's thread only, which works too as worker 0. Tasks are dealt as contiguous
// ranges, one per worker, fixed by the counts alone: worker w always gets the same tasks. Between loops the
// workers spin for a moment and then sleep. A task must not throw and must not call run().
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

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

class ThreadPool {
 public:
  // `threads` >= 1 workers in all, the caller among them.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(task, worker) once for each task in [0, tasks); returns when all are done. What the tasks
  // wrote is visible to the caller and to later loops.
  template <typename F>
  void run(int tasks, F&& body) {
    run_tasks(tasks, TaskRef(body));
  }

 private:
  void run_tasks(int tasks, TaskRef body);
  void work(int worker);
  void run_range(int worker) const;
  // Returns once `value` is no longer `old`; spins first, then sleeps until wake().
  void wait_while(const std::atomic<std::uint32_t>& value, std::uint32_t old);
  void wake(const std::atomic<std::uint32_t>& value);

  std::vector<std::thread> workers_;
  const TaskRef* body_ = nullptr;
  int tasks_ = 0;
  bool stop_ = false;
  alignas(64) std::atomic<std::uint32_t> round_{0};    // raised to start a loop
  alignas(64) std::atomic<std::uint32_t> running_{0};  // workers still in it
  alignas(64) std::atomic<int> sleepers_{0};           // threads asleep, or about to be
};

}  // namespace tagalong::base
