#include "base/thread_pool.h"

#include <immintrin.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

#include "base/check.h"

namespace tagalong::base {

namespace {

// About 20 microseconds: longer than the gap between two loops of a step, shorter than what a neighbour on a
// shared machine would notice. After it the thread sleeps in the kernel.
constexpr int kSpins = 2000;

// The kernel's own wait and wake. std::atomic's are not used because libstdc++ yields the processor before it
// sleeps, and on a machine with other work each yield may cost a whole time slice: a step of forty loops then
// takes a hundred times as long.
void futex(const std::atomic<std::uint32_t>& word, int operation, std::uint32_t value) {
  static_assert(sizeof(word) == sizeof(std::uint32_t));
  syscall(SYS_futex, &word, operation | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0);
}

}  // namespace

void ThreadPool::wait_while(const std::atomic<std::uint32_t>& value, std::uint32_t old) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (value.load(std::memory_order_acquire) != old) return;
    _mm_pause();
  }
  // Sequentially consistent on both sides: either the one who changes the value sees the sleeper, or the
  // kernel sees the change and does not let it sleep.
  sleepers_.fetch_add(1);
  while (value.load() == old) futex(value, FUTEX_WAIT, old);
  sleepers_.fetch_sub(1);
}

void ThreadPool::wake(const std::atomic<std::uint32_t>& value) {
  if (sleepers_.load() > 0) futex(value, FUTEX_WAKE, INT_MAX);
}

ThreadPool::ThreadPool(int threads) {
  CHECK(threads >= 1, "{} threads", threads);
  workers_.reserve(static_cast<std::size_t>(threads - 1));
  for (int worker = 1; worker < threads; ++worker) workers_.emplace_back([this, worker] { work(worker); });
}

ThreadPool::~ThreadPool() {
  stop_ = true;
  round_.fetch_add(1);
  wake(round_);
  for (auto& worker : workers_) worker.join();
}

void ThreadPool::run_tasks(int tasks, TaskRef body) {
  if (tasks <= 0) return;
  if (workers_.empty() || tasks == 1) {
    for (int task = 0; task < tasks; ++task) body(task, 0);
    return;
  }
  body_ = &body;
  tasks_ = tasks;
  running_.store(static_cast<std::uint32_t>(workers_.size()), std::memory_order_relaxed);
  round_.fetch_add(1);
  wake(round_);
  run_range(0);
  for (std::uint32_t left = running_.load(std::memory_order_acquire); left != 0;
       left = running_.load(std::memory_order_acquire)) {
    wait_while(running_, left);
  }
}

void ThreadPool::run_range(int worker) const {
  const std::int64_t workers = size();
  const int begin = static_cast<int>(tasks_ * std::int64_t{worker} / workers);
  const int end = static_cast<int>(tasks_ * (std::int64_t{worker} + 1) / workers);
  for (int task = begin; task < end; ++task) (*body_)(task, worker);
}

void ThreadPool::work(int worker) {
  std::uint32_t seen = 0;
  for (;;) {
    wait_while(round_, seen);
    ++seen;
    if (stop_) return;
    run_range(worker);
    if (running_.fetch_sub(1) == 1) wake(running_);
  }
}

}  // namespace tagalong::base
