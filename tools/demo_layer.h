// The demo's second half: one MoE layer of a 30-billion-parameter model, whose 340 MB of weights no cache
// holds, so that fewer distinct experts are less time.
#pragma once

#include "base/thread_pool.h"
#include "kernels/kernels.h"

namespace tagalong::tools {

// Measures and prints; about ten seconds on two cores.
void show_large_layer(const kernels::Kernels& kernels, base::ThreadPool& pool);

}  // namespace tagalong::tools
