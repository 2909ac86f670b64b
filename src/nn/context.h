// What every block of a model needs to run: kernels and threads. Passed by value; owns nothing.
#pragma once

#include "base/thread_pool.h"
#include "kernels/kernels.h"

namespace tagalong::nn {

struct Context {
  const kernels::Kernels& kernels;
  base::ThreadPool& pool;
};

}  // namespace tagalong::nn
