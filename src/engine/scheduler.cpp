#include "engine/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tagalong::engine {

Scheduler::Scheduler(const Limits& limits) : limits_(limits), blocks_(limits.kv_blocks) {
  CHECK(limits.max_sequences >= 1 && limits.max_batch_tokens >= limits.max_sequences, "{} sequences, {} rows",
        limits.max_sequences, limits.max_batch_tokens);
  parts_.reserve(static_cast<std::size_t>(limits.max_sequences));
}

void Scheduler::add(std::unique_ptr<Sequence> sequence) {
  CHECK(line_.empty() || line_.back()->id < sequence->id, "request {} after {}", sequence->id,
        line_.back()->id);
  CHECK(cache::blocks_for(sequence->limit) <= blocks_.capacity(), "{} tokens in {} blocks", sequence->limit,
        blocks_.capacity());
  line_.push_back(std::move(sequence));
}

std::unique_ptr<Sequence> Scheduler::remove(RequestId id) {
  const auto at =
      std::lower_bound(line_.begin(), line_.end(), id,
                       [](const auto& sequence, RequestId wanted) { return sequence->id < wanted; });
  if (at == line_.end() || (*at)->id != id) return nullptr;
  return take(static_cast<std::size_t>(at - line_.begin()));
}

std::unique_ptr<Sequence> Scheduler::take(std::size_t index) {
  std::unique_ptr<Sequence> sequence = std::move(line_[index]);
  line_.erase(line_.begin() + static_cast<std::ptrdiff_t>(index));
  if (static_cast<int>(index) < running_) {
    --running_;
    release(*sequence);
  }
  return sequence;
}

void Scheduler::release(Sequence& sequence) {
  for (const std::int32_t block : sequence.table.blocks) blocks_.release(block);
  sequence.table.blocks.clear();
  sequence.computed = 0;
}

bool Scheduler::schedule(models::Batch& batch) {
  batch.clear();
  parts_.clear();
  if (line_.empty()) return false;
  schedule_decode(batch);
  schedule_prefill(batch);
  CHECK(batch.rows() > 0, "{} running and {} waiting, but nothing to compute", running(), waiting());
  return true;
}

void Scheduler::schedule_decode(models::Batch& batch) {
  // Oldest first: a sequence takes blocks from younger ones only, none of which has rows in the batch yet.
  for (int i = 0; i < running_; ++i) {
    Sequence& sequence = *line_[static_cast<std::size_t>(i)];
    if (sequence.decoding() && grow(i, sequence.size())) add_rows(batch, sequence, 1);
  }
}

void Scheduler::schedule_prefill(models::Batch& batch) {
  const auto fill = [&](Sequence& sequence) {
    const int room = limits_.max_batch_tokens - batch.rows();
    if (room > 0) add_rows(batch, sequence, std::min(room, sequence.pending()));
  };
  for (int i = 0; i < running_; ++i) {
    Sequence& sequence = *line_[static_cast<std::size_t>(i)];
    if (!sequence.decoding()) fill(sequence);
  }
  while (batch.rows() < limits_.max_batch_tokens && admit_next()) {
    fill(*line_[static_cast<std::size_t>(running_ - 1)]);
  }
}

bool Scheduler::admit_next() {
  if (waiting() == 0 || running_ == limits_.max_sequences) return false;
  Sequence& next = *line_[static_cast<std::size_t>(running_)];
  // It gets all blocks of what it has so far, and of the token to come, at once: prefill then never runs out
  // of them. A block for each running sequence that may still grow stays free, or the newcomer would soon be
  // preempted. The first in line needs no reserve, and fits because all blocks are free.
  int reserve = 0;
  for (int i = 0; i < running_; ++i) {
    const Sequence& sequence = *line_[static_cast<std::size_t>(i)];
    if (sequence.blocks() < cache::blocks_for(sequence.limit)) ++reserve;
  }
  const int needed = cache::blocks_for(next.size() + 1);
  if (needed + reserve > blocks_.free_blocks()) return false;
  ++running_;
  CHECK(grow(running_ - 1, next.size() + 1), "{} blocks were free", needed);
  return true;
}

bool Scheduler::grow(int index, int tokens) {
  Sequence& sequence = *line_[static_cast<std::size_t>(index)];
  const int needed = cache::blocks_for(tokens);
  while (sequence.blocks() < needed) {
    const std::int32_t block = blocks_.allocate();
    if (block >= 0) {
      sequence.table.blocks.push_back(block);
      continue;
    }
    preempt_youngest();
    if (running_ <= index) return false;
  }
  return true;
}

void Scheduler::preempt_youngest() {
  CHECK(running_ > 1, "one sequence alone has run out of {} blocks", blocks_.capacity());
  --running_;
  ++preemptions_;
  release(*line_[static_cast<std::size_t>(running_)]);
}

void Scheduler::add_rows(models::Batch& batch, Sequence& sequence, int rows) {
  using routing::RowRole;
  const RowRole decode = sequence.request.exact_routing ? RowRole::kPinnedExact : RowRole::kDecode;
  const RowRole role = sequence.decoding() ? decode : RowRole::kPrefill;
  const auto index = static_cast<std::int32_t>(batch.tables.size());
  batch.tables.push_back(&sequence.table);
  for (int row = 0; row < rows; ++row) {
    const int position = sequence.computed + row;
    batch.ids.push_back(sequence.tokens[static_cast<std::size_t>(position)]);
    batch.positions.push_back(position);
    batch.sequences.push_back(index);
    batch.roles.push_back(role);
  }
  const bool wants_logits = rows == sequence.pending();
  if (wants_logits) batch.logit_rows.push_back(batch.rows() - 1);
  parts_.push_back({&sequence, rows, wants_logits});
}

}  // namespace tagalong::engine
