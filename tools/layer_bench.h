// Times one MoE layer, router and experts, on random rows under several batch sizes and routing policies.
//
// Rounds interleave all cases; each call routes fresh rows, so the experts it touches are cold when the layer
// is larger than the caches. Between any two calls the bandwidth is sampled, and a call is compared with the
// samples on either side of it: memory of shared machines gets slower or faster by half within a run.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ceilings.h"
#include "kernels/kernels.h"
#include "nn/moe.h"
#include "routing/routing_policy.h"

namespace tagalong::tools {

struct LayerCase {
  int rows = 1;
  routing::RoutingPolicy policy;
  kernels::Tuning tuning{};
};

struct LayerResult {
  double microseconds = 0;        // median over the rounds
  double experts = 0;             // mean distinct routed experts per call
  double experts_exact = 0;       // the same under exact routing
  double kept_mass = 0;           // mean
  double bytes = 0;               // mean weights streamed per call, router and shared expert included
  double floor_microseconds = 0;  // median over the calls of max(bytes / bandwidth, products / peak)
  double share = 0;               // median of what part of its time a call's floor is
  std::uint64_t hash = 0;         // of all outputs
};

// progress() after each round.
std::vector<LayerResult> bench_layer(const nn::Moe& layer, int hidden, const std::vector<LayerCase>& cases,
                                     int rounds, const kernels::Kernels& kernels, base::ThreadPool& pool,
                                     Ceilings& ceilings, const std::function<void()>& progress);

}  // namespace tagalong::tools
