// How weights are packed at load: who does it and where the result lies. Neither changes a byte of it.
#pragma once

#include <memory>
#include <utility>

#include "base/arena.h"
#include "base/thread_pool.h"

namespace tagalong::kernels {

struct Packing {
  std::shared_ptr<base::Arena> arena = nullptr;  // null: each weight has memory of its own
  base::ThreadPool* pool = nullptr;  // null: the calling thread alone, perhaps a task of some pool

  // body(task, worker) once for each task in [0, tasks).
  template <typename F>
  void run(int tasks, F&& body) const {
    if (pool != nullptr) {
      pool->run(tasks, std::forward<F>(body));
    } else {
      for (int task = 0; task < tasks; ++task) body(task, 0);
    }
  }
};

}  // namespace tagalong::kernels
