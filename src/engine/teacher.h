// Runs given tokens through a model, outside of the scheduler: for measuring what the model thinks of a text.
//
// The sequences grow together or one at a time; each call is one batch (prompts: one for each chunk). Used by
// one thread, which must be the only user of the pool meanwhile. It samples nothing and keeps no logits.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/thread_pool.h"
#include "cache/kv_store.h"
#include "engine/routing_log.h"
#include "models/batch.h"
#include "models/model.h"
#include "routing/routing_policy.h"

namespace tagalong::engine {

class Teacher {
 public:
  struct Options {
    int sequences = 1;
    int tokens = 0;  // of each sequence, at most; 0: the model's context
    int chunk = 64;  // rows of a prompt's batch; raised to `sequences` where it is less
    cache::KvType kv_type = cache::KvType::kBF16;
    routing::RoutingPolicy policy{};
  };

  // [vocab] logits after the token at `position`.
  using Sink = std::function<void(int position, std::span<const float> logits)>;

  // Throws InputError if the policy does not fit the model or the tokens do not fit its context.
  Teacher(const models::Model& model, base::ThreadPool& pool, const Options& options);

  // Forgets all tokens.
  void reset();
  // Appends a piece of prompt to one sequence, routed exactly. `sink`, if any, gets the logits of every
  // token.
  void prompt(int sequence, std::span<const std::int32_t> ids, const Sink& sink = {});
  // Appends one token to every sequence, as decode rows. Returns their logits, [sequences, vocab], valid
  // until the next call.
  std::span<const float> decode(std::span<const std::int32_t> ids);
  // What the routing of all calls of decode() cost.
  const routing::RoutingStatistics& decode_routing() const { return routing_log_.decode(); }

 private:
  void add_row(int sequence, std::int32_t id, routing::RowRole role);
  void run();

  const models::Model& model_;
  base::ThreadPool& pool_;
  Options options_;
  cache::KvStore kv_;
  std::unique_ptr<models::Workspace> workspace_;
  std::vector<cache::BlockTable> tables_;  // [sequences] all blocks for `tokens`, from the start
  std::vector<int> lengths_;               // [sequences] tokens so far
  models::Batch batch_;
  RoutingLog routing_log_;
  std::uint64_t step_ = 0;
  base::AlignedBuffer<float> logits_;  // [chunk, vocab]
};

}  // namespace tagalong::engine
