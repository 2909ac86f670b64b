#include "base/thread_pool.h"

#include <immintrin.h>

#include "base/check.h"

namespace tagalong::base {

namespace {

// About 20 microseconds: longer than the gap between two loops of a step, shorter than what a neighbour on a
// shared machine would notice. After it the thread sleeps in the kernel.
constexpr int kSpins = 2000;

// Returns once `value` is no longer `old`.
void wait_while(const std::atomic<std::uint32_t>& value, std::uint32_t old) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (value.load(std::memory_order_acquire) != old) return;
    _mm_pause();
  }
  while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  CHECK(threads >= 1, "{} threads", threads);
  workers_.reserve(static_cast<std::size_t>(threads - 1));
  for (int worker = 1; worker < threads; ++worker) workers_.emplace_back([this, worker] { work(worker); });
}

ThreadPool::~ThreadPool() {
  stop_ = true;
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
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
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
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
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_one();
  }
}

}  // namespace tagalong::base
