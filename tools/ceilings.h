// What this machine can do at most, measured with the threads and the instruction set of the measurement
// beside it: on shared machines both move from minute to minute, so they are taken in the same run,
// interleaved.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/arena.h"
#include "base/thread_pool.h"
#include "kernels/kernels.h"

namespace tagalong::tools {

class Ceilings {
 public:
  // Allocates this much, far beyond any cache, to stream through; each worker's part on the worker's node.
  static constexpr std::size_t kBytes = std::size_t{256} << 20;
  Ceilings(const kernels::Kernels& kernels, base::ThreadPool& pool);

  // Takes one sample of each; about 30 ms.
  void sample();
  // One of the bandwidth alone, which it returns in bytes per second. Nothing that was read before it is left
  // in the caches.
  double sample_bandwidth();

  // Medians of the samples so far.
  double bytes_per_second() const;
  double products_per_second() const;  // int8 multiplications with their additions

 private:
  const kernels::Kernels& kernels_;
  base::ThreadPool& pool_;
  base::Arena arena_;
  std::vector<std::byte*> parts_;  // [workers], part_bytes_ each
  std::size_t part_bytes_;
  std::vector<double> bandwidths_;
  std::vector<double> rates_;
};

double median(std::vector<double> values);

}  // namespace tagalong::tools
