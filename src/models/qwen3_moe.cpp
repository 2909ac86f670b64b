// Qwen3's mixture-of-experts models (model_type "qwen3_moe"): grouped-query attention with a norm per head of
// queries and keys, experts chosen by a softmax over all of them, no shared expert.
//
// Source: the published configs and transformers' qwen3_moe, which the golden tests compare with.
#include <algorithm>
#include <string>
#include <utility>

#include "checkpoint/checkpoint.h"
#include "models/architectures.h"
#include "models/decoder_parts.h"
#include "models/qwen3_moe_config.h"
#include "nn/gqa.h"
#include "nn/moe.h"

namespace tagalong::models {

namespace {

using checkpoint::Checkpoint;

struct Layer {
  std::vector<float> input_norm;      // [hidden]
  std::vector<float> attention_norm;  // [hidden], after attention
  nn::Gqa attention;
  nn::Gqa::Planes planes;
  FeedForward feed_forward;
};

nn::Gqa load_attention(const Checkpoint& file, const std::string& name, const nn::GqaConfig& c) {
  return {.config = c,
          .q = nn::Linear(file.weight(name + ".q_proj", {c.q_width(), c.hidden})),
          .k = nn::Linear(file.weight(name + ".k_proj", {c.kv_width(), c.hidden})),
          .v = nn::Linear(file.weight(name + ".v_proj", {c.kv_width(), c.hidden})),
          .q_norm = file.vector(name + ".q_norm.weight", c.head_dim),
          .k_norm = file.vector(name + ".k_norm.weight", c.head_dim),
          .o = nn::Linear(file.weight(name + ".o_proj", {c.hidden, c.q_width()}))};
}

nn::Moe load_moe(const Checkpoint& file, const std::string& name, const Qwen3MoeConfig& h,
                 base::ThreadPool& pool, const std::shared_ptr<base::Arena>& arena) {
  nn::Moe moe;
  moe.spec = h.router;
  moe.router = load_router(file, name, h.router.experts, h.hidden);
  moe.experts = load_experts(pool, h.router.experts, [&](int e) {
    return load_gated(file, fmt::format("{}.experts.{}", name, e), h.hidden, h.moe_intermediate, arena);
  });
  return moe;
}

struct Qwen3MoeWorkspace : Workspace {
  Qwen3MoeWorkspace(const Qwen3MoeConfig& h, const WorkspaceLimits& limits)
      : stream(limits, h.hidden, h.router, std::max(h.intermediate, h.moe_intermediate)),
        angles(h.attention.head_dim, h.rope_theta, limits.rows),
        attention(h.attention, limits.rows, h.max_context, limits.workers) {}

  DecoderBuffers stream;
  nn::RopeAngles angles;
  nn::GqaWorkspace attention;
};

class Qwen3Moe : public Model {
 public:
  Qwen3Moe(const Checkpoint& file, const LoadOptions& options)
      : kernels_(options.kernels), h_(read_qwen3_moe_config(file.config())) {
    embedding_ = Embedding(file.weight("model.embed_tokens", {h_.vocab, h_.hidden}));
    final_norm_ = file.vector("model.norm.weight", h_.hidden);
    head_ = nn::Linear(file.weight(h_.tied_head ? "model.embed_tokens" : "lm_head", {h_.vocab, h_.hidden}));
    info_ = {.architecture = "qwen3_moe",
             .vocab = h_.vocab,
             .max_context = h_.max_context,
             .layers = h_.layers,
             .router = h_.router,
             .dense_bytes = head_.bytes()};
    file.release();
    const auto arena = std::make_shared<base::Arena>(options.pages);
    for (int i = 0; i < h_.layers; ++i) load_layer(file, i, options.pool, arena);
    count_totals(embedding_, head_, info_);
  }

  const ModelInfo& info() const override { return info_; }

  std::unique_ptr<Workspace> make_workspace(const WorkspaceLimits& limits) const override {
    routing::validate(limits.policy, h_.router, "routing policy");
    return std::make_unique<Qwen3MoeWorkspace>(h_, limits);
  }

  std::vector<const nn::Moe*> moe_layers() const override { return moe_of_layers(layers_); }

  void forward(const Batch& batch, const StepContext& step, Workspace& workspace,
               std::span<float> logits) const override {
    auto& w = static_cast<Qwen3MoeWorkspace&>(workspace);
    const nn::Context context{kernels_, step.pool, step.tuning};
    const nn::AttentionRows rows{batch.positions, batch.sequences, batch.tables};
    const int count = batch.rows();
    DecoderBuffers& b = w.stream;
    const std::span<float> x =
        b.residual.span().first(static_cast<std::size_t>(count) * static_cast<std::size_t>(h_.hidden));
    embedding_.lookup(batch.ids, x.data());
    w.angles.set(batch.positions);
    observe(step, "embedding", x);

    int moe_index = 0;
    for (int i = 0; i < h_.layers; ++i) {
      const Layer& layer = layers_[i];
      norm_rows(context, x.data(), layer.input_norm, h_.norm_eps, count, b.normed.data());
      layer.attention.apply(context, rows, w.angles, b.normed.data(), step.kv, layer.planes, w.attention,
                            b.block_out.data());
      add_rows(context, b.block_out.data(), count, h_.hidden, x.data());

      norm_rows(context, x.data(), layer.attention_norm, h_.norm_eps, count, b.normed.data());
      layer.feed_forward.apply(context, batch, step, moe_index, b);
      add_rows(context, b.block_out.data(), count, h_.hidden, x.data());
      if (layer.feed_forward.moe) ++moe_index;
      if (step.observer != nullptr) observe(step, fmt::format("layer.{}", i), x);
    }
    apply_head(context, batch, final_norm_, h_.norm_eps, head_, b, logits);
  }

 private:
  void load_layer(const Checkpoint& file, int i, base::ThreadPool& pool,
                  const std::shared_ptr<base::Arena>& arena) {
    const std::string name = fmt::format("model.layers.{}", i);
    Layer layer;
    layer.input_norm = file.vector(name + ".input_layernorm.weight", h_.hidden);
    layer.attention_norm = file.vector(name + ".post_attention_layernorm.weight", h_.hidden);
    layer.attention = load_attention(file, name + ".self_attn", h_.attention);
    layer.planes = {.key = 2 * i, .value = 2 * i + 1};
    info_.kv_planes.insert(info_.kv_planes.end(), 2, h_.attention.kv_width());
    info_.dense_bytes += layer.attention.bytes();
    info_.row_products += layer.attention.products();
    if (h_.sparse_mlp[i]) {
      layer.feed_forward.moe = load_moe(file, name + ".mlp", h_, pool, arena);
    } else {
      layer.feed_forward.dense = load_gated(file, name + ".mlp", h_.hidden, h_.intermediate, arena);
    }
    layer.feed_forward.count(info_);
    layers_.push_back(std::move(layer));
    file.release();
  }

  const kernels::Kernels& kernels_;
  Qwen3MoeConfig h_;
  ModelInfo info_;
  Embedding embedding_;
  std::vector<Layer> layers_;
  std::vector<float> final_norm_;  // [hidden]
  nn::Linear head_;                // [vocab, hidden]
};

}  // namespace

std::unique_ptr<Model> load_qwen3_moe(const Checkpoint& checkpoint, const LoadOptions& options) {
  return std::make_unique<Qwen3Moe>(checkpoint, options);
}

}  // namespace tagalong::models
