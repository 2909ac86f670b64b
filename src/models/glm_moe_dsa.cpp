// GLM-5 and its relatives (model_type "glm_moe_dsa"): multi-head latent attention with the DSA indexer,
// leading dense layers, then mixture-of-experts layers with a biased sigmoid router and a shared expert.
//
// Source: the published configs and transformers' glm_moe_dsa, which the golden tests compare with.
#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "models/architectures.h"
#include "models/decoder.h"
#include "models/glm_moe_dsa_config.h"
#include "nn/mla.h"
#include "nn/rope.h"

namespace tagalong::models {

namespace {

struct Attention {
  nn::Mla weights;
  nn::Mla::Planes planes;
};

nn::Mla load_attention(const WeightLoader& loader, const std::string& name, const GlmConfig& h,
                       nn::Sparsity sparsity) {
  nn::Mla mla;
  const nn::MlaConfig& c = h.mla;
  mla.config = c;
  mla.q_a = loader.linear(name + ".q_a_proj", c.q_lora, c.hidden);
  mla.q_norm = loader.vector(name + ".q_a_layernorm.weight", c.q_lora);
  mla.q_b = loader.linear(name + ".q_b_proj", c.heads * (c.nope + c.rope), c.q_lora);
  mla.kv_a = loader.linear(name + ".kv_a_proj_with_mqa", c.kv_lora + c.rope, c.hidden);
  mla.kv_norm = loader.vector(name + ".kv_a_layernorm.weight", c.kv_lora);
  mla.absorb(loader.weight(name + ".kv_b_proj", c.heads * (c.nope + c.v), c.kv_lora), loader.packing());
  mla.o = loader.linear(name + ".o_proj", c.hidden, c.heads * c.v);
  mla.sparsity = sparsity;
  if (sparsity == nn::Sparsity::kOwn) {
    const std::string indexer = name + ".indexer";
    mla.indexer.emplace();
    mla.indexer->config = h.dsa;
    mla.indexer->query = loader.linear(indexer + ".wq_b", h.dsa.heads * h.dsa.dim, c.q_lora);
    mla.indexer->key = loader.linear(indexer + ".wk", h.dsa.dim, c.hidden);
    mla.indexer->norm_weight = loader.vector(indexer + ".k_norm.weight", h.dsa.dim);
    mla.indexer->norm_bias = loader.vector(indexer + ".k_norm.bias", h.dsa.dim);
    mla.indexer->weights = loader.linear(indexer + ".weights_proj", h.dsa.heads, c.hidden);
  }
  return mla;
}

struct GlmWorkspace : Workspace {
  GlmWorkspace(const GlmConfig& h, const Decoder& decoder, const WorkspaceLimits& limits)
      : buffers(decoder.make_buffers(limits)),
        angles(h.mla.rope, h.decoder.rope_theta, limits.rows),
        mla(h.mla, limits.rows, h.decoder.max_context, limits.workers) {
    if (h.sparsity[0] != nn::Sparsity::kDense) {
      dsa = nn::DsaWorkspace(h.dsa, limits.rows, h.decoder.max_context, limits.workers);
      selection = nn::SlotSelection(limits.rows, h.dsa.top_k);
    }
  }

  DecoderBuffers buffers;
  nn::RopeAngles angles;
  nn::MlaWorkspace mla;
  nn::DsaWorkspace dsa;
  nn::SlotSelection selection;
};

class GlmMoeDsa : public Model {
 public:
  GlmMoeDsa(const checkpoint::Checkpoint& file, const LoadOptions& options)
      : h_(read_glm_config(file.config())),
        decoder_(h_.decoder, file, options,
                 [this](const WeightLoader& loader, int layer, const std::string& name, ModelInfo& info) {
                   add_attention(load_attention(loader, name, h_, h_.sparsity[layer]), info);
                 }) {}

  const ModelInfo& info() const override { return decoder_.info(); }

  std::unique_ptr<Workspace> make_workspace(const WorkspaceLimits& limits) const override {
    return std::make_unique<GlmWorkspace>(h_, decoder_, limits);
  }

  std::vector<const nn::Moe*> moe_layers() const override { return decoder_.moe_layers(); }

  void forward(const Batch& batch, const StepContext& step, Workspace& workspace,
               std::span<float> logits) const override {
    auto& w = static_cast<GlmWorkspace&>(workspace);
    const nn::AttentionRows rows{batch.positions, batch.sequences, batch.tables};
    w.angles.set(batch.positions);
    const auto attend = [&](const nn::Context& context, int layer, const float* x, float* out) {
      const Attention& attention = attention_[layer];
      attention.weights.apply(context, rows, w.angles, x, step.kv, attention.planes, w.mla, w.dsa,
                              w.selection, out);
    };
    decoder_.forward(batch, step, w.buffers, std::cref(attend), logits);
  }

 private:
  void add_attention(nn::Mla weights, ModelInfo& info) {
    info.dense_bytes += weights.bytes();
    info.row_products += weights.products();
    nn::Mla::Planes planes;
    planes.latent = add_planes(1, h_.mla.kv_lora, info);
    planes.rope = add_planes(1, h_.mla.rope_width(), info);
    if (weights.indexer) planes.index = add_planes(1, h_.dsa.dim, info);
    info.attention = h_.mla.attention();
    info.most_attended = weights.sparsity == nn::Sparsity::kDense
                             ? h_.decoder.max_context
                             : std::min(h_.dsa.top_k, h_.decoder.max_context);
    attention_.push_back({.weights = std::move(weights), .planes = planes});
  }

  GlmConfig h_;
  std::vector<Attention> attention_;  // [layers]; stands before the decoder, which fills it
  Decoder decoder_;
};

}  // namespace

std::unique_ptr<Model> load_glm_moe_dsa(const checkpoint::Checkpoint& checkpoint,
                                        const LoadOptions& options) {
  return std::make_unique<GlmMoeDsa>(checkpoint, options);
}

}  // namespace tagalong::models
