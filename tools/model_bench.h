// Measures a model's whole steps: decode steps at several batch sizes and one prefill, beside the machine's
// ceilings. Runs on one thread, which must be the only user of the pool meanwhile.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/thread_pool.h"
#include "cache/kv_store.h"
#include "ceilings.h"
#include "kernels/tuning.h"
#include "models/model.h"
#include "routing/routing_policy.h"

namespace tagalong::tools {

struct StepCase {
  int sequences = 1;  // each has one row in every step, or
  int prompt = 0;     // one sequence has so many rows, of which only the last one's logits are wanted

  int rows() const { return std::max(sequences, prompt); }
};

struct StepPlan {
  std::vector<StepCase> cases;
  int rounds = 5;              // interleaving all cases, and one more to warm up
  int steps = 3;               // of a decode case in a round; a prompt is fed once
  bool random_tokens = false;  // otherwise each sequence goes on with its likeliest token
  cache::KvType kv_type = cache::KvType::kBF16;
  routing::RoutingPolicy policy{};
  kernels::TuningTable tuning{};
};

struct StepResult {
  double seconds = 0;          // of a step, median
  double experts = 0;          // distinct experts of a layer, mean over layers and steps
  double experts_uniform = 0;  // what it would be if every row chose uniformly
  double bytes = 0;            // of weights that a step streams, mean
  double floor_seconds = 0;    // what the ceilings allow
  std::uint64_t hash = 0;      // of all logits
};

// A step is the forward pass and, unless tokens are random, the choice of the likeliest one of every row.
// `progress` is called after each round but the first.
std::vector<StepResult> bench_steps(const models::Model& model, base::ThreadPool& pool, const StepPlan& plan,
                                    Ceilings& ceilings, const std::function<void()>& progress);

// Adds MODEL and its flags to `tagalong bench`, beside its subcommands.
void add_model_bench(CLI::App& bench);

}  // namespace tagalong::tools
