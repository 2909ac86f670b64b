// Bits per byte of a text with teacher-forced batches: the windows of the text stand side by side as the
// sequences of one batch, each first gets some of its own tokens as an exact prompt, and then every step
// feeds one given token to each. Only tokens predicted by such steps count, and so does the policy's cost.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "base/thread_pool.h"
#include "cache/kv_store.h"
#include "models/model.h"
#include "routing/routing_policy.h"
#include "routing/statistics.h"
#include "tokenizer/tokenizer.h"

namespace tagalong::tools {

struct EvaluationShape {
  int rows = 16;             // windows in a batch
  int batches = 4;           // batches, one after the other
  int prompt_tokens = 64;    // of each window, not counted
  int counted_tokens = 192;  // of each window

  int window() const { return prompt_tokens + counted_tokens; }
  int steps() const { return batches * counted_tokens; }
};

struct EvaluationText {
  std::vector<std::vector<std::int32_t>> windows;  // [batches * rows] of [window] tokens
  std::uint64_t bytes = 0;                         // of the counted tokens
};

// Windows spread evenly over the .txt files of `directory`; none of them overlap or cross from one file into
// another. Empty if there is no such directory. Throws InputError if the text is too short for the shape.
EvaluationText read_evaluation(const std::filesystem::path& directory, const tokenizer::Tokenizer& tokenizer,
                               const EvaluationShape& shape);

struct EvaluationResult {
  double bits = 0;  // of all counted tokens
  std::uint64_t tokens = 0;
  routing::RoutingTotals routing;
};

struct EvaluationRun {
  const models::Model& model;
  base::ThreadPool& pool;
  cache::KvType kv_type;
  const routing::RoutingPolicy& policy;
  std::function<void()> on_step;
};

EvaluationResult evaluate(const EvaluationText& text, const EvaluationShape& shape, const EvaluationRun& run);

}  // namespace tagalong::tools
