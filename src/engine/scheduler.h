// Decides which rows the next step computes, first come first served, and who holds the KV blocks.
//
// All requests stand in one line in the order of their arrival. Those that hold blocks, the running ones, are
// always the front of it: admission moves the border back by one, and when blocks run out the running request
// nearest to the border gives its blocks back and waits again; what it had computed is recomputed later. So
// the oldest request can always go on, and none is overtaken. Used by the engine's thread only; schedule()
// does not allocate. It never looks at logits and never calls back.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "cache/block_pool.h"
#include "engine/sequence.h"
#include "models/batch.h"

namespace tagalong::engine {

class Scheduler {
 public:
  struct Limits {
    int max_sequences = 0;     // running at once
    int max_batch_tokens = 0;  // rows of a step, at least max_sequences
    int kv_blocks = 0;         // at least what one sequence at its full length needs
  };

  // The rows of one sequence in the batch, at the same index as its table.
  struct Part {
    Sequence* sequence = nullptr;
    int rows = 0;
    bool wants_logits = false;  // the rows reach the last token
  };

  explicit Scheduler(const Limits& limits);

  // Joins the line at its end; `sequence->limit` tokens must fit into all blocks together.
  void add(std::unique_ptr<Sequence> sequence);
  // Leaves the line and gives the blocks back; null when no such request stands in it.
  std::unique_ptr<Sequence> remove(RequestId id);
  // The oldest request, or null.
  const Sequence* first() const { return line_.empty() ? nullptr : line_.front().get(); }

  // Fills the batch with the decode rows, then with as much of the prompts as the budget allows. False when
  // the line is empty.
  bool schedule(models::Batch& batch);
  // What schedule() chose, in the batch's order. The sequences may have left the line since.
  std::span<const Part> parts() const { return parts_; }

  int running() const { return running_; }
  int waiting() const { return static_cast<int>(line_.size()) - running_; }
  const cache::BlockPool& blocks() const { return blocks_; }
  std::uint64_t preemptions() const { return preemptions_; }

 private:
  void schedule_decode(models::Batch& batch);
  void schedule_prefill(models::Batch& batch);
  // Gives the running sequence at `index` blocks for `tokens`, taking them from younger ones if it must, and
  // from itself if that is not enough: then false.
  bool grow(int index, int tokens);
  void preempt_youngest();
  bool admit_next();
  void add_rows(models::Batch& batch, Sequence& sequence, int rows);
  std::unique_ptr<Sequence> take(std::size_t index);
  void release(Sequence& sequence);

  Limits limits_;
  cache::BlockPool blocks_;
  std::vector<std::unique_ptr<Sequence>> line_;  // by id; the first running_ hold blocks
  int running_ = 0;
  std::vector<Part> parts_;
  std::uint64_t preemptions_ = 0;
};

}  // namespace tagalong::engine
