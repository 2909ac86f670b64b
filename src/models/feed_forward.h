// The second half of a layer: either a mixture of experts or one network. Immutable after loading.
#pragma once

#include <optional>
#include <string>

#include "models/batch.h"
#include "models/decoder_buffers.h"
#include "models/decoder_config.h"
#include "models/model.h"
#include "models/weight_loader.h"
#include "nn/context.h"
#include "nn/gated_experts.h"
#include "nn/moe.h"

namespace tagalong::models {

struct FeedForward {
  std::optional<nn::Moe> moe;
  std::optional<nn::GatedWeights> dense;

  // buffers.block_out = this of buffers.normed. `moe_index` counts the model's MoE layers from 0.
  void apply(const nn::Context& context, const Batch& batch, const StepContext& step, int moe_index,
             DecoderBuffers& buffers) const;
  // Adds the layer, its bytes and its products to the model's.
  void count(ModelInfo& info) const;
};

// The network NAME, or with `sparse` the router NAME.gate, the experts NAME.experts.0 and so on, the shared
// one NAME.shared_experts, and the bias NAME.gate.e_score_correction_bias; the last two where the config's
// router has them.
FeedForward load_feed_forward(const WeightLoader& loader, const std::string& name, const DecoderConfig& h,
                              bool sparse);

}  // namespace tagalong::models
