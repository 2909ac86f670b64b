// What every block of a model needs to run: kernels, threads and how to use them. Passed by value; owns
// nothing.
#pragma once

#include "base/thread_pool.h"
#include "kernels/kernels.h"
#include "kernels/tuning.h"

namespace tagalong::nn {

struct Context {
  const kernels::Kernels& kernels;
  base::ThreadPool& pool;
  kernels::Tuning tuning{};  // changes speed only
};

}  // namespace tagalong::nn
