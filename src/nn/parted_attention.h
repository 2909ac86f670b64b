// Softmax attention of a batch's rows over the cache, once queries are made and keys and values are cached:
// the driver that grouped-query and latent attention share.
//
//   out_h = sum over t of softmax((q_h . k_t) * scale) v_t, t over the positions that the row sees
//
// A row's keys are taken in parts of kernels::kAttentionPart, whose sums are folded from the first to the
// last. A task is some heads that share their keys, for some consecutive rows of a sequence; where rows are
// few, each part becomes a task of its own, and heads are dealt out too if that is not enough. The parts and
// their order are the same in any case, so a row's bits depend neither on that choice nor on its neighbours.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/aligned_buffer.h"
#include "cache/kv_store.h"
#include "kernels/attention.h"
#include "nn/attention_rows.h"
#include "nn/attention_shape.h"
#include "nn/context.h"
#include "nn/slot_selection.h"

namespace tagalong::nn {

class AttentionWorkspace {
 public:
  AttentionWorkspace() = default;
  AttentionWorkspace(const AttentionShape& shape, int max_rows, int max_context, int workers);

 private:
  friend class PartedAttention;

  struct Worker {
    std::vector<std::int32_t> slots;     // [kAttentionPart]
    base::AlignedBuffer<float> scratch;  // [attention_scratch()]
    base::AlignedBuffer<float> part;     // sums of kAttentionRows rows
  };

  std::vector<RowRun> runs_;            // [rows]
  std::vector<int> first_parts_;        // [rows + 1] prefix sums of the runs' parts
  base::AlignedBuffer<float> largest_;  // [rows, heads] of the parts so far
  base::AlignedBuffer<float> sum_;      // likewise
  base::AlignedBuffer<float> parts_;    // sums of parts that wait to be folded
  std::vector<Worker> workers_;
};

// One layer's attention of one step.
struct AttentionCall {
  const AttentionRows& rows;
  const cache::KvStore& kv;
  std::array<const float*, 2> queries{};  // for each plane of keys [rows, heads, key_width]
  // The first of kv_heads planes of the store, one for each head: [slots, key_width], [slots, dim].
  std::array<int, 2> key_planes{};
  int value_plane = 0;
  const SlotSelection* selection = nullptr;  // rows with more than top_k positions see their choice only
  float* out = nullptr;                      // [rows, heads, dim], written
};

// The shape is the workspace's; rows, positions and threads keep to what that was made for.
void attend(const Context& context, const AttentionShape& shape, const AttentionCall& call,
            AttentionWorkspace& workspace);

}  // namespace tagalong::nn
