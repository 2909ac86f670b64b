// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434) in its absorbed form, for prefill and decode
// alike.
//
// Cached per token: the normalised latent c and one rotated key k, shared by all heads. The up-projections of
// keys and values are absorbed into query and output, so a row reads only what is cached and a recomputed
// prefix has the same bits:
//   q~_h = W_UK,h^T q_nope,h;   s_t = (q~_h . c_t + q_rope,h . k_t) * scale;   o_h = W_UV,h sum_t p_t c_t
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/aligned_buffer.h"
#include "cache/kv_store.h"
#include "nn/attention_rows.h"
#include "nn/context.h"
#include "nn/dsa_indexer.h"
#include "nn/linear.h"
#include "nn/parted_attention.h"
#include "nn/rope.h"

namespace tagalong::nn {

struct MlaConfig {
  int hidden = 0;
  int heads = 0;
  int q_lora = 0;      // rank of the query's down-projection
  int kv_lora = 0;     // width of the cached latent
  int nope = 0;        // head values without position
  int rope = 0;        // head values with rotary position
  int v = 0;           // values of a head's output
  float scale = 0;     // of the scores, (nope + rope)^-1/2
  float norm_eps = 0;  // of the two norms inside
  RopeStyle style = RopeStyle::kInterleaved;

  // Width of rotated queries and keys in buffers and cache: kernels want whole vectors, the rest is zero.
  int rope_width() const { return (rope + kernels::kLanes - 1) / kernels::kLanes * kernels::kLanes; }
  // All heads share the latents, which are keys and values, and the rotated keys.
  AttentionShape attention() const {
    return {
        .heads = heads, .kv_heads = 1, .key_widths = {kv_lora, rope_width()}, .dim = kv_lora, .scale = scale};
  }
};

struct MlaWorkspace {
  MlaWorkspace() = default;
  MlaWorkspace(const MlaConfig& config, int max_rows, int max_context, int workers);

  base::AlignedBuffer<float> q_resid;   // [rows, q_lora]
  base::AlignedBuffer<float> q;         // [rows, heads * (nope + rope)]
  base::AlignedBuffer<float> kv;        // [rows, kv_lora + rope]
  base::AlignedBuffer<float> q_latent;  // [rows, heads, kv_lora]
  base::AlignedBuffer<float> q_rope;    // [rows, heads, rope_width]
  base::AlignedBuffer<float> k_rope;    // [rows, rope_width]
  base::AlignedBuffer<float> context;   // [rows, heads, kv_lora]
  base::AlignedBuffer<float> heads;     // [rows, heads * v]
  QuantizedRows scratch;                // [rows, widest input]
  AttentionWorkspace attention;
};

// How a layer chooses the positions that it attends to.
enum class Sparsity : std::uint8_t {
  kDense,   // all positions
  kOwn,     // by its own indexer
  kShared,  // as the last layer with an indexer of its own
};

class Mla {
 public:
  MlaConfig config;
  Linear q_a;                                   // [q_lora, hidden]
  std::vector<float> q_norm;                    // [q_lora]
  Linear q_b;                                   // [heads * (nope + rope), q_lora]
  Linear kv_a;                                  // [kv_lora + rope, hidden]
  std::vector<float> kv_norm;                   // [kv_lora]
  std::vector<kernels::PackedMatrix> key_up;    // per head W_UK^T [kv_lora, nope]
  std::vector<kernels::PackedMatrix> value_up;  // per head W_UV [v, kv_lora]
  Linear o;                                     // [hidden, heads * v]
  Sparsity sparsity = Sparsity::kDense;
  std::optional<DsaIndexer> indexer;  // present with Sparsity::kOwn

  // Planes of this layer in the KvStore: latents, rotated keys, and the indexer's keys (-1 without one).
  struct Planes {
    int latent = -1;
    int rope = -1;
    int index = -1;
  };

  // Splits kv_b_proj [heads * (nope + v), kv_lora] into key_up and value_up, in F32 or BF16.
  void absorb(const tensor::WeightView& kv_b, const kernels::Packing& packing = {});

  // x: [rows, hidden] normalised input; out: [rows, hidden]. Writes the rows' cache entries first.
  void apply(const Context& context, const AttentionRows& rows, const RopeAngles& angles, const float* x,
             cache::KvStore& kv, const Planes& planes, MlaWorkspace& workspace, DsaWorkspace& dsa,
             SlotSelection& selection, float* out) const;

  std::size_t bytes() const;
  std::size_t products() const;  // multiplications of a row in the linear layers

 private:
  void project(const Context& context, const AttentionRows& rows, const RopeAngles& angles, const float* x,
               cache::KvStore& kv, const Planes& planes, MlaWorkspace& workspace) const;
};

}  // namespace tagalong::nn
