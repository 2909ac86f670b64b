// A few threads that run tasks in the order of submission: for parsing and tokenising, which may take long
// and must not hold up the server's thread. submit() may be called from any thread; the destructor drops what
// has not begun and waits for what has. Tasks must not throw.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tagalong::server {

class WorkerQueue {
 public:
  explicit WorkerQueue(int threads);
  ~WorkerQueue();
  WorkerQueue(const WorkerQueue&) = delete;
  WorkerQueue& operator=(const WorkerQueue&) = delete;

  void submit(std::function<void()> task);

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable news_;
  std::deque<std::function<void()>> tasks_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tagalong::server
