#include "server/worker_queue.h"

#include <utility>

namespace tagalong::server {

WorkerQueue::WorkerQueue(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

WorkerQueue::~WorkerQueue() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  news_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerQueue::submit(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  news_.notify_one();
}

void WorkerQueue::work() {
  while (true) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      news_.wait(lock, [this] { return stop_ || !tasks_.empty(); });
      if (stop_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace tagalong::server
