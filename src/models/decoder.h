// The frame that all decoder-only models share: token embeddings; layers of norm, attention, norm and a
// feed-forward network, each half added to the residual stream; a last norm and the head. Attention is the
// architecture's own and comes as two functions, one that loads a layer's and one that applies it.
//
// Immutable after construction. forward() is Model::forward(): it allocates, throws and locks nothing.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "models/batch.h"
#include "models/decoder_buffers.h"
#include "models/decoder_config.h"
#include "models/embedding.h"
#include "models/feed_forward.h"
#include "models/model.h"
#include "models/weight_loader.h"
#include "nn/context.h"
#include "nn/linear.h"
#include "nn/moe.h"

namespace tagalong::models {

// More planes of the KV cache; returns the first one's index.
int add_planes(int count, int width, ModelInfo& info);

class Decoder {
 public:
  // Loads the attention NAME of the next layer, and adds its bytes, products and planes to `info`.
  using LoadAttention =
      std::function<void(const WeightLoader& loader, int layer, const std::string& name, ModelInfo& info)>;
  // out = attention of the layer over x, both [rows, hidden].
  using Attend = std::function<void(const nn::Context& context, int layer, const float* x, float* out)>;

  // Loads model.embed_tokens, model.layers.0 and so on, model.norm and lm_head. Throws InputError naming the
  // first tensor that is missing or wrong.
  Decoder(DecoderConfig config, const checkpoint::Checkpoint& file, const LoadOptions& options,
          const LoadAttention& load_attention);

  const ModelInfo& info() const { return info_; }
  std::vector<const nn::Moe*> moe_layers() const;

  // Throws InputError if the policy does not fit the routers.
  DecoderBuffers make_buffers(const WorkspaceLimits& limits) const;

  // One step. Give `attend` as std::cref of a callable: std::function would copy a large one to the heap.
  void forward(const Batch& batch, const StepContext& step, DecoderBuffers& buffers, const Attend& attend,
               std::span<float> logits) const;

 private:
  struct Layer {
    std::vector<float> input_norm;      // [hidden]
    std::vector<float> attention_norm;  // [hidden], after attention
    FeedForward feed_forward;
  };

  void apply_head(const nn::Context& context, const Batch& batch, DecoderBuffers& buffers,
                  std::span<float> logits) const;

  const kernels::Kernels& kernels_;
  DecoderConfig h_;
  ModelInfo info_;
  Embedding embedding_;
  std::vector<float> final_norm_;  // [hidden]
  nn::Linear head_;                // [vocab, hidden]
  std::vector<Layer> layers_;
};

}  // namespace tagalong::models
