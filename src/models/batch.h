// The rows of one step: which token stands where in which sequence. Plain data, filled by the scheduler,
// reused from step to step; the model only reads it.
#pragma once

#include <cstdint>
#include <vector>

#include "cache/block_pool.h"
#include "routing/row_role.h"

namespace tagalong::models {

struct Batch {
  std::vector<std::int32_t> ids;                 // [rows] token ids, each in [0, vocab)
  std::vector<std::int32_t> positions;           // [rows] in [0, max_context)
  std::vector<std::int32_t> sequences;           // [rows] index into `tables`
  std::vector<routing::RowRole> roles;           // [rows]
  std::vector<const cache::BlockTable*> tables;  // [sequences] blocks present for every position below
  std::vector<std::int32_t> logit_rows;          // rows whose logits are wanted, ascending

  // A row attends to the positions of its sequence up to its own. Those before the row's own must either be
  // cached by an earlier step or be rows of this batch.
  int rows() const { return static_cast<int>(ids.size()); }

  void clear() {
    ids.clear();
    positions.clear();
    sequences.clear();
    roles.clear();
    tables.clear();
    logit_rows.clear();
  }
};

}  // namespace tagalong::models
