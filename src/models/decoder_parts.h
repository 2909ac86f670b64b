// What every decoder-only model has, whatever its attention: embedding, the buffers of the residual stream,
// row-wise norm and addition, dense and MoE feed-forward layers, the head, parallel loading.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/arena.h"
#include "models/batch.h"
#include "models/model.h"
#include "nn/context.h"
#include "nn/gated_experts.h"
#include "nn/linear.h"
#include "nn/moe.h"
#include "routing/route_plan.h"
#include "routing/router_spec.h"
#include "tensor/weight_view.h"

namespace tagalong::models {

// Token embeddings, kept as they are in the checkpoint.
class Embedding {
 public:
  Embedding() = default;
  // weight: [vocab, hidden]; its bytes are copied.
  explicit Embedding(const tensor::WeightView& weight);

  std::size_t bytes() const { return data_.size() + scales_.size(); }

  // out: [ids, hidden].
  void lookup(std::span<const std::int32_t> ids, float* out) const;

 private:
  tensor::WeightView view_;  // of the two buffers
  base::AlignedBuffer<std::byte> data_;
  base::AlignedBuffer<std::byte> scales_;
};

// The buffers of a step that do not depend on the attention. Rows are the batch's.
struct DecoderBuffers {
  // intermediate: the widest of all feed-forward networks.
  DecoderBuffers(const WorkspaceLimits& limits, int hidden, const routing::RouterSpec& router,
                 int intermediate);

  int hidden;
  base::AlignedBuffer<float> residual;   // [rows, hidden]
  base::AlignedBuffer<float> normed;     // [rows, hidden]
  base::AlignedBuffer<float> block_out;  // [rows, hidden]
  base::AlignedBuffer<float> head_in;    // [logit rows, hidden]
  nn::QuantizedRows head_scratch;
  nn::MoeWorkspace moe;
  nn::GatedWorkspace gated;
  std::vector<routing::PlanEntry> all_rows;  // [rows] every row with weight 1: the plan of a dense layer
};

// The second half of a layer: either a mixture of experts or one network.
struct FeedForward {
  std::optional<nn::Moe> moe;
  std::optional<nn::GatedWeights> dense;

  // buffers.block_out = this of buffers.normed. `moe_index` counts the model's MoE layers from 0.
  void apply(const nn::Context& context, const Batch& batch, const StepContext& step, int moe_index,
             DecoderBuffers& buffers) const;
  // Adds the layer, its bytes and its products to the model's.
  void count(ModelInfo& info) const;
};

// The mixtures of experts among `layers`, each of which has a feed_forward, in order.
template <typename Layer>
std::vector<const nn::Moe*> moe_of_layers(const std::vector<Layer>& layers) {
  std::vector<const nn::Moe*> found;
  for (const Layer& layer : layers) {
    if (layer.feed_forward.moe) found.push_back(&*layer.feed_forward.moe);
  }
  return found;
}

// Fills in what follows from the other sizes once all layers are counted.
void count_totals(const Embedding& embedding, const nn::Linear& head, ModelInfo& info);

// logits [batch.logit_rows, vocab] = head(RMSNorm(residual)) of the rows that want them.
void apply_head(const nn::Context& context, const Batch& batch, std::span<const float> norm, float eps,
                const nn::Linear& head, DecoderBuffers& buffers, std::span<float> logits);

// out[r] = RMSNorm(x[r]) for `rows` rows of weight.size() values.
void norm_rows(const nn::Context& context, const float* x, std::span<const float> weight, float eps, int rows,
               float* out);

// sum[r] += x[r].
void add_rows(const nn::Context& context, const float* x, int rows, int width, float* sum);

void observe(const StepContext& step, std::string_view point, std::span<const float> values);

// The network NAME.gate_proj, NAME.up_proj, NAME.down_proj, packed into the arena; the file's own copy is
// released.
nn::GatedWeights load_gated(const checkpoint::Checkpoint& file, const std::string& name, int hidden,
                            int intermediate, const std::shared_ptr<base::Arena>& arena);

// The router NAME.gate, [experts, hidden]; a quantised one is refused, since it would route by rounded
// scores.
nn::Linear load_router(const checkpoint::Checkpoint& file, const std::string& name, int experts, int hidden);

// Calls load(e) for every expert from the pool's threads; the first error in order of e is thrown afterwards.
std::vector<nn::GatedWeights> load_experts(base::ThreadPool& pool, int experts,
                                           const std::function<nn::GatedWeights(int)>& load);

}  // namespace tagalong::models
