// The lightning indexer of DeepSeek sparse attention (DSA): chooses the positions that a row attends to.
//
//   I(t, s) = sum over heads h of w_h(t) * relu(q_h(t) . k(s) * dim^-1/2) * heads^-1/2,  s <= t
//
// and the `top_k` positions of greatest I are kept; ties go to the earlier position, NaN ranks lowest. q
// comes from the low-rank query of MLA, k is one normalised key per token, both rotated in their first `rope`
// values. Source: DeepSeek-V3.2-Exp report and transformers' glm_moe_dsa.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "cache/kv_store.h"
#include "nn/attention_rows.h"
#include "nn/context.h"
#include "nn/linear.h"
#include "nn/rope.h"
#include "nn/slot_selection.h"

namespace tagalong::nn {

struct DsaConfig {
  int heads = 0;
  int dim = 0;   // of a head; a multiple of 16
  int rope = 0;  // rotated values, at the front
  int top_k = 0;
  RopeStyle style = RopeStyle::kInterleaved;
};

struct DsaWorkspace {
  DsaWorkspace() = default;
  DsaWorkspace(const DsaConfig& config, int max_rows, int max_context, int workers);

  base::AlignedBuffer<float> queries;  // [rows, heads * dim]
  base::AlignedBuffer<float> keys;     // [rows, dim]
  base::AlignedBuffer<float> weights;  // [rows, heads]
  std::vector<RowRun> runs;            // [rows]
  // What is known of one run: made by several threads, then read by those that choose.
  struct List {
    std::vector<std::int32_t> slots;    // [max_context]
    base::AlignedBuffer<float> scores;  // [kAttentionRows, score_stride]
  };
  std::vector<List> lists;                          // [workers] runs that are looked at together
  std::vector<base::AlignedBuffer<float>> scratch;  // [workers] of the scoring kernel
  std::size_t score_stride = 0;                     // max_context, padded to 16
};

class DsaIndexer {
 public:
  DsaConfig config;
  Linear query;                    // wq_b [heads * dim, q_lora_rank]
  Linear key;                      // wk [dim, hidden]
  std::vector<float> norm_weight;  // k_norm [dim]
  std::vector<float> norm_bias;    // [dim]
  Linear weights;                  // weights_proj [heads, hidden]

  // Caches the rows' keys in `plane` and chooses the slots of every row with more than top_k positions.
  // x: [rows, hidden] normalised input of the layer; q_resid: [rows, q_lora_rank].
  void select(const Context& context, const AttentionRows& rows, const RopeAngles& angles, const float* x,
              const float* q_resid, cache::KvStore& kv, int plane, DsaWorkspace& workspace,
              QuantizedRows& scratch, SlotSelection& selection) const;

 private:
  void score(const Context& context, const AttentionRows& rows, std::span<const RowRun> runs,
             const cache::KvStore& kv, int plane, DsaWorkspace& workspace) const;
};

}  // namespace tagalong::nn
