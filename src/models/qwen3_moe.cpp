// Qwen3's mixture-of-experts models (model_type "qwen3_moe"): grouped-query attention with a norm per head of
// queries and keys, experts chosen by a softmax over all of them, no shared expert.
//
// Source: the published configs and transformers' qwen3_moe, which the golden tests compare with.
#include <functional>
#include <string>

#include "models/architectures.h"
#include "models/decoder.h"
#include "models/qwen3_moe_config.h"
#include "nn/gqa.h"
#include "nn/rope.h"

namespace tagalong::models {

namespace {

struct Attention {
  nn::Gqa weights;
  nn::Gqa::Planes planes;
};

nn::Gqa load_attention(const WeightLoader& loader, const std::string& name, const nn::GqaConfig& c) {
  return {.config = c,
          .q = loader.linear(name + ".q_proj", c.q_width(), c.hidden),
          .k = loader.linear(name + ".k_proj", c.kv_width(), c.hidden),
          .v = loader.linear(name + ".v_proj", c.kv_width(), c.hidden),
          .q_norm = loader.vector(name + ".q_norm.weight", c.head_dim),
          .k_norm = loader.vector(name + ".k_norm.weight", c.head_dim),
          .o = loader.linear(name + ".o_proj", c.hidden, c.q_width())};
}

struct Qwen3MoeWorkspace : Workspace {
  Qwen3MoeWorkspace(const Qwen3MoeConfig& h, const Decoder& decoder, const WorkspaceLimits& limits)
      : buffers(decoder.make_buffers(limits)),
        angles(h.attention.head_dim, h.decoder.rope_theta, limits.rows),
        attention(h.attention, limits.rows, h.decoder.max_context, limits.workers) {}

  DecoderBuffers buffers;
  nn::RopeAngles angles;
  nn::GqaWorkspace attention;
};

class Qwen3Moe : public Model {
 public:
  Qwen3Moe(const checkpoint::Checkpoint& file, const LoadOptions& options)
      : h_(read_qwen3_moe_config(file.config())),
        decoder_(h_.decoder, file, options,
                 [this](const WeightLoader& loader, int, const std::string& name, ModelInfo& info) {
                   add_attention(load_attention(loader, name, h_.attention), info);
                 }) {}

  const ModelInfo& info() const override { return decoder_.info(); }

  std::unique_ptr<Workspace> make_workspace(const WorkspaceLimits& limits) const override {
    return std::make_unique<Qwen3MoeWorkspace>(h_, decoder_, limits);
  }

  std::vector<const nn::Moe*> moe_layers() const override { return decoder_.moe_layers(); }

  void forward(const Batch& batch, const StepContext& step, Workspace& workspace,
               std::span<float> logits) const override {
    auto& w = static_cast<Qwen3MoeWorkspace&>(workspace);
    const nn::AttentionRows rows{batch.positions, batch.sequences, batch.tables};
    w.angles.set(batch.positions);
    const auto attend = [&](const nn::Context& context, int layer, const float* x, float* out) {
      const Attention& attention = attention_[layer];
      attention.weights.apply(context, rows, w.angles, x, step.kv, attention.planes, w.attention, out);
    };
    decoder_.forward(batch, step, w.buffers, std::cref(attend), logits);
  }

 private:
  void add_attention(nn::Gqa weights, ModelInfo& info) {
    info.dense_bytes += weights.bytes();
    info.row_products += weights.products();
    info.attention = h_.attention.attention();
    info.most_attended = h_.decoder.max_context;
    const int key = add_planes(h_.attention.kv_heads, h_.attention.head_dim, info);
    const int value = add_planes(h_.attention.kv_heads, h_.attention.head_dim, info);
    attention_.push_back({.weights = std::move(weights), .planes = {.key = key, .value = value}});
  }

  Qwen3MoeConfig h_;
  std::vector<Attention> attention_;  // [layers]; stands before the decoder, which fills it
  Decoder decoder_;
};

}  // namespace

std::unique_ptr<Model> load_qwen3_moe(const checkpoint::Checkpoint& checkpoint, const LoadOptions& options) {
  return std::make_unique<Qwen3Moe>(checkpoint, options);
}

}  // namespace tagalong::models
