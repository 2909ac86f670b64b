// Grouped-query attention (Ainslie et al., arXiv 2305.13245): several query heads share a key/value head.
//
//   q, k, v = W_q x, W_k x, W_v x; q and k normalised per head if the model does so (QK-norm), then rotated
//   o_h = sum over t <= position of softmax((q_h . k_t) * scale) v_t;  out = W_o [o_0, o_1, ...]
//
// Prefill and decode are the same code: keys and values go into the cache first, and rows read them there.
#pragma once

#include <cstddef>
#include <vector>

#include "base/aligned_buffer.h"
#include "cache/kv_store.h"
#include "nn/attention_rows.h"
#include "nn/context.h"
#include "nn/linear.h"
#include "nn/parted_attention.h"
#include "nn/rope.h"

namespace tagalong::nn {

struct GqaConfig {
  int hidden = 0;
  int heads = 0;
  int kv_heads = 0;    // divides heads
  int head_dim = 0;    // a multiple of 16
  float scale = 0;     // of the scores, head_dim^-1/2
  float norm_eps = 0;  // of QK-norm
  RopeStyle style = RopeStyle::kHalfSplit;

  int kv_width() const { return kv_heads * head_dim; }
  int q_width() const { return heads * head_dim; }
  AttentionShape attention() const {
    return {.heads = heads, .kv_heads = kv_heads, .key_widths = {head_dim}, .dim = head_dim, .scale = scale};
  }
};

struct GqaWorkspace {
  GqaWorkspace() = default;
  GqaWorkspace(const GqaConfig& config, int max_rows, int max_context, int workers);

  base::AlignedBuffer<float> q;    // [rows, heads * head_dim]
  base::AlignedBuffer<float> k;    // [rows, kv_heads * head_dim]
  base::AlignedBuffer<float> v;    // likewise
  base::AlignedBuffer<float> out;  // [rows, heads * head_dim]
  QuantizedRows scratch;           // [rows, wider of hidden and heads * head_dim]
  AttentionWorkspace attention;
};

class Gqa {
 public:
  GqaConfig config;
  Linear q;                   // [heads * head_dim, hidden]
  Linear k;                   // [kv_heads * head_dim, hidden]
  Linear v;                   // likewise
  std::vector<float> q_norm;  // [head_dim], or empty: no QK-norm
  std::vector<float> k_norm;  // likewise
  Linear o;                   // [hidden, heads * head_dim]

  // Planes of this layer in the KvStore, the first of kv_heads each, head_dim wide: rotated keys, values. A
  // plane for each head, because memory is read faster in order than in pieces of a head.
  struct Planes {
    int key = -1;
    int value = -1;
  };

  // x: [rows, hidden] normalised input; out: [rows, hidden]. Writes the rows' cache entries first.
  void apply(const Context& context, const AttentionRows& rows, const RopeAngles& angles, const float* x,
             cache::KvStore& kv, const Planes& planes, GqaWorkspace& workspace, float* out) const;

  std::size_t bytes() const { return q.bytes() + k.bytes() + v.bytes() + o.bytes(); }
  std::size_t products() const { return q.products() + k.products() + v.products() + o.products(); }

 private:
  void project(const Context& context, const AttentionRows& rows, const RopeAngles& angles, const float* x,
               cache::KvStore& kv, const Planes& planes, GqaWorkspace& workspace) const;
};

}  // namespace tagalong::nn
