// GLM-5 and its relatives (model_type "glm_moe_dsa"): multi-head latent attention with the DSA indexer,
// leading dense layers, then mixture-of-experts layers with a biased sigmoid router and a shared expert.
//
// Source: the published configs and transformers' glm_moe_dsa, which the golden tests compare with.
#include <algorithm>
#include <string>

#include "base/check.h"
#include "checkpoint/checkpoint.h"
#include "models/architectures.h"
#include "models/decoder_parts.h"
#include "models/glm_moe_dsa_config.h"
#include "nn/mla.h"
#include "nn/moe.h"

namespace tagalong::models {

namespace {

using checkpoint::Checkpoint;

struct Layer {
  std::vector<float> input_norm;      // [hidden]
  std::vector<float> attention_norm;  // [hidden], after attention
  nn::Mla attention;
  nn::Mla::Planes planes;
  FeedForward feed_forward;
};

nn::Mla load_attention(const Checkpoint& file, const std::string& name, const GlmConfig& h,
                       nn::Sparsity sparsity) {
  nn::Mla mla;
  const nn::MlaConfig& c = h.mla;
  mla.config = c;
  mla.q_a = nn::Linear(file.weight(name + ".q_a_proj", {c.q_lora, c.hidden}));
  mla.q_norm = file.vector(name + ".q_a_layernorm.weight", c.q_lora);
  mla.q_b = nn::Linear(file.weight(name + ".q_b_proj", {c.heads * (c.nope + c.rope), c.q_lora}));
  mla.kv_a = nn::Linear(file.weight(name + ".kv_a_proj_with_mqa", {c.kv_lora + c.rope, c.hidden}));
  mla.kv_norm = file.vector(name + ".kv_a_layernorm.weight", c.kv_lora);
  mla.absorb(file.weight(name + ".kv_b_proj", {c.heads * (c.nope + c.v), c.kv_lora}));
  mla.o = nn::Linear(file.weight(name + ".o_proj", {c.hidden, c.heads * c.v}));
  mla.sparsity = sparsity;
  if (sparsity == nn::Sparsity::kOwn) {
    const std::string indexer = name + ".indexer";
    mla.indexer.emplace();
    mla.indexer->config = h.dsa;
    mla.indexer->query = nn::Linear(file.weight(indexer + ".wq_b", {h.dsa.heads * h.dsa.dim, c.q_lora}));
    mla.indexer->key = nn::Linear(file.weight(indexer + ".wk", {h.dsa.dim, c.hidden}));
    mla.indexer->norm_weight = file.vector(indexer + ".k_norm.weight", h.dsa.dim);
    mla.indexer->norm_bias = file.vector(indexer + ".k_norm.bias", h.dsa.dim);
    mla.indexer->weights = nn::Linear(file.weight(indexer + ".weights_proj", {h.dsa.heads, c.hidden}));
  }
  return mla;
}

nn::Moe load_moe(const Checkpoint& file, const std::string& name, const GlmConfig& h, base::ThreadPool& pool,
                 const std::shared_ptr<base::Arena>& arena) {
  nn::Moe moe;
  moe.spec = h.router;
  moe.spec.correction_bias = file.vector(name + ".gate.e_score_correction_bias", h.router.experts);
  routing::validate(moe.spec, name);
  moe.router = load_router(file, name, h.router.experts, h.hidden);
  moe.experts = load_experts(pool, h.router.experts, [&](int e) {
    return load_gated(file, fmt::format("{}.experts.{}", name, e), h.hidden, h.moe_intermediate, arena);
  });
  if (h.router.fused_shared_experts > 0) {
    // Several shared experts are stored as one network, so many times as wide.
    moe.experts.push_back(load_gated(file, name + ".shared_experts", h.hidden, h.shared_intermediate, arena));
  }
  return moe;
}

// Buffers of one step. Rows are the batch's.
struct GlmWorkspace : Workspace {
  GlmWorkspace(const GlmConfig& h, const WorkspaceLimits& limits)
      : stream(limits, h.hidden, h.router,
               std::max({h.intermediate, h.moe_intermediate, h.shared_intermediate})),
        angles(h.mla.rope, h.rope_theta, limits.rows),
        mla(h.mla, limits.rows, h.max_context, limits.workers) {
    if (h.sparsity[0] != nn::Sparsity::kDense) {
      dsa = nn::DsaWorkspace(h.dsa, limits.rows, h.max_context, limits.workers);
      selection = nn::SlotSelection(limits.rows, h.dsa.top_k);
    }
  }

  DecoderBuffers stream;
  nn::RopeAngles angles;
  nn::MlaWorkspace mla;
  nn::DsaWorkspace dsa;
  nn::SlotSelection selection;
};

class GlmMoeDsa : public Model {
 public:
  GlmMoeDsa(const Checkpoint& file, const LoadOptions& options)
      : kernels_(options.kernels), h_(read_glm_config(file.config())) {
    embedding_ = Embedding(file.weight("model.embed_tokens", {h_.vocab, h_.hidden}));
    final_norm_ = file.vector("model.norm.weight", h_.hidden);
    head_ = nn::Linear(file.weight(h_.tied_head ? "model.embed_tokens" : "lm_head", {h_.vocab, h_.hidden}));
    info_ = {.architecture = "glm_moe_dsa",
             .vocab = h_.vocab,
             .max_context = h_.max_context,
             .layers = h_.layers,
             .router = h_.router,
             .dense_bytes = head_.bytes()};
    info_.router.correction_bias.clear();
    file.release();
    const auto arena = std::make_shared<base::Arena>(options.pages);
    for (int i = 0; i < h_.layers; ++i) load_layer(file, i, options.pool, arena);
    count_totals(embedding_, head_, info_);
  }

  const ModelInfo& info() const override { return info_; }

  std::unique_ptr<Workspace> make_workspace(const WorkspaceLimits& limits) const override {
    routing::validate(limits.policy, h_.router, "routing policy");
    return std::make_unique<GlmWorkspace>(h_, limits);
  }

  std::vector<const nn::Moe*> moe_layers() const override { return moe_of_layers(layers_); }

  void forward(const Batch& batch, const StepContext& step, Workspace& workspace,
               std::span<float> logits) const override {
    auto& w = static_cast<GlmWorkspace&>(workspace);
    const nn::Context context{kernels_, step.pool, step.tuning};
    const nn::AttentionRows rows{batch.positions, batch.sequences, batch.tables};
    const int count = batch.rows();
    DecoderBuffers& b = w.stream;
    const std::size_t size = static_cast<std::size_t>(count) * static_cast<std::size_t>(h_.hidden);
    float* x = b.residual.data();
    embedding_.lookup(batch.ids, x);
    w.angles.set(batch.positions);
    observe(step, "embedding", {x, size});

    int moe_index = 0;
    for (int i = 0; i < h_.layers; ++i) {
      const Layer& layer = layers_[i];
      norm_rows(context, x, layer.input_norm, h_.norm_eps, count, b.normed.data());
      layer.attention.apply(context, rows, w.angles, b.normed.data(), step.kv, layer.planes, w.mla, w.dsa,
                            w.selection, b.block_out.data());
      add_rows(context, b.block_out.data(), count, h_.hidden, x);

      norm_rows(context, x, layer.attention_norm, h_.norm_eps, count, b.normed.data());
      layer.feed_forward.apply(context, batch, step, moe_index, b);
      add_rows(context, b.block_out.data(), count, h_.hidden, x);
      if (layer.feed_forward.moe) ++moe_index;
      if (step.observer != nullptr) observe(step, fmt::format("layer.{}", i), {x, size});
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
    layer.attention = load_attention(file, name + ".self_attn", h_, h_.sparsity[i]);
    layer.planes.latent = add_plane(h_.mla.kv_lora);
    layer.planes.rope = add_plane(h_.mla.rope_width());
    if (layer.attention.indexer) layer.planes.index = add_plane(h_.dsa.dim);
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

  int add_plane(int width) {
    info_.kv_planes.push_back(width);
    return static_cast<int>(info_.kv_planes.size()) - 1;
  }

  const kernels::Kernels& kernels_;
  GlmConfig h_;
  ModelInfo info_;
  Embedding embedding_;
  std::vector<Layer> layers_;
  std::vector<float> final_norm_;  // [hidden]
  nn::Linear head_;                // [vocab, hidden]
};

}  // namespace

std::unique_ptr<Model> load_glm_moe_dsa(const Checkpoint& checkpoint, const LoadOptions& options) {
  return std::make_unique<GlmMoeDsa>(checkpoint, options);
}

}  // namespace tagalong::models
