// GLM-5 and its relatives (model_type "glm_moe_dsa"): multi-head latent attention with the DSA indexer,
// leading dense layers, then mixture-of-experts layers with a biased sigmoid router and a shared expert.
//
// Source: the published configs and transformers' glm_moe_dsa, which the golden tests compare with.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "base/check.h"
#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "models/architectures.h"
#include "models/decoder_parts.h"
#include "nn/mla.h"
#include "nn/moe.h"

namespace tagalong::models {

namespace {

using checkpoint::Checkpoint;
using checkpoint::Config;
using checkpoint::kDimension;

// transformers builds the norms inside MLA with this, whatever rms_norm_eps says, and the bundled model is
// trained so.
constexpr float kMlaNormEps = 1e-6F;

struct Hyperparameters {
  int vocab, hidden, layers, max_context;
  int intermediate, moe_intermediate, shared_intermediate;
  float norm_eps;
  double rope_theta;
  bool tied_head;
  nn::MlaConfig mla;
  nn::DsaConfig dsa;
  routing::RouterSpec router;
  std::vector<bool> sparse_mlp;        // [layers] MoE or dense
  std::vector<nn::Sparsity> sparsity;  // [layers]
};

int dimension(const Config& config, std::string_view key, int multiple = 1) {
  const auto value = static_cast<int>(config.integer(key, kDimension));
  if (value % multiple != 0) config.fail(key, fmt::format("{} is not a multiple of {}", value, multiple));
  return value;
}

// Per layer: "dense" or "sparse" from mlp_layer_types, else the first first_k_dense_replace are dense.
std::vector<bool> read_mlp_types(const Config& config, int layers) {
  std::vector<bool> sparse(static_cast<std::size_t>(layers));
  if (!config.has("mlp_layer_types")) {
    const auto dense = config.integer_or("first_k_dense_replace", 3, {.min = 0, .max = kDimension.max});
    for (int i = 0; i < layers; ++i) sparse[i] = i >= dense;
    return sparse;
  }
  const auto types = config.strings("mlp_layer_types");
  if (static_cast<int>(types.size()) < layers) {
    config.fail("mlp_layer_types", fmt::format("{} entries for {} layers", types.size(), layers));
  }
  for (int i = 0; i < layers; ++i) {
    if (types[i] != "dense" && types[i] != "sparse")
      config.fail("mlp_layer_types", "unknown type " + types[i]);
    sparse[i] = types[i] == "sparse";
  }
  return sparse;
}

// Per layer whether it has an indexer of its own: indexer_types, else index_topk_pattern ("FSSF"), else
// every index_topk_freq-th layer from index_skip_topk_offset on.
std::vector<bool> read_own_indexers(const Config& config, int layers) {
  std::vector<bool> own(static_cast<std::size_t>(layers));
  if (config.has("indexer_types")) {
    const auto types = config.strings("indexer_types");
    if (static_cast<int>(types.size()) < layers) {
      config.fail("indexer_types", fmt::format("{} entries for {} layers", types.size(), layers));
    }
    for (int i = 0; i < layers; ++i) {
      if (types[i] != "full" && types[i] != "shared")
        config.fail("indexer_types", "unknown type " + types[i]);
      own[i] = types[i] == "full";
    }
  } else if (config.has("index_topk_pattern")) {
    const std::string pattern = config.string("index_topk_pattern");
    if (static_cast<int>(pattern.size()) < layers || pattern.find_first_not_of("FS") != std::string::npos) {
      config.fail("index_topk_pattern", fmt::format("'{}' is not {} letters F or S", pattern, layers));
    }
    for (int i = 0; i < layers; ++i) own[i] = pattern[i] == 'F';
  } else {
    const auto period = config.integer_or("index_topk_freq", 1, kDimension);
    const auto offset = config.integer_or("index_skip_topk_offset", 2, {.min = 0, .max = kDimension.max});
    for (int i = 0; i < layers; ++i) own[i] = std::max<std::int64_t>(i - offset + 1, 0) % period == 0;
  }
  if (!own[0]) config.fail("indexer_types", "the first layer shares an indexer, but there is none before it");
  return own;
}

routing::RouterSpec read_router(const Config& config) {
  if (const auto scoring = config.string_or("scoring_func", "sigmoid"); scoring != "sigmoid") {
    config.fail("scoring_func", "'" + scoring + "' is not supported, only sigmoid");
  }
  if (const auto method = config.string_or("topk_method", "noaux_tc"); method != "noaux_tc") {
    config.fail("topk_method", "'" + method + "' is not supported, only noaux_tc");
  }
  routing::RouterSpec spec;
  spec.scoring = routing::Scoring::kSigmoid;
  spec.experts = dimension(config, "n_routed_experts");
  spec.top_k = dimension(config, "num_experts_per_tok");
  spec.groups = static_cast<int>(config.integer_or("n_group", 1, kDimension));
  spec.topk_groups = static_cast<int>(config.integer_or("topk_group", 1, kDimension));
  if (spec.groups > 1) spec.group_score = routing::GroupScore::kSumOfTopTwo;
  spec.renormalise = config.boolean_or("norm_topk_prob", true);
  spec.scaling = static_cast<float>(config.real_or("routed_scaling_factor", 1.0));
  spec.fused_shared_experts = config.integer("n_shared_experts", {.min = 0, .max = 64}) > 0 ? 1 : 0;
  spec.correction_bias.assign(static_cast<std::size_t>(spec.experts), 0.0F);  // each layer brings its own
  routing::validate(spec, "config.json");
  return spec;
}

void refuse_variants(const Config& config) {
  for (const char* key : {"attention_bias", "mlp_bias"}) {
    if (config.boolean_or(key, false)) config.fail(key, "biases are not supported");
  }
  if (const auto act = config.string_or("hidden_act", "silu"); act != "silu") {
    config.fail("hidden_act", "'" + act + "' is not supported, only silu");
  }
  if (const auto rope = config.optional_object("rope_parameters")) {
    if (const auto type = rope->string_or("rope_type", "default"); type != "default") {
      rope->fail("rope_type", "'" + type + "' is not supported, only default");
    }
  }
}

Hyperparameters read_config(const Config& config) {
  refuse_variants(config);
  Hyperparameters h{};
  h.vocab = dimension(config, "vocab_size");
  h.hidden = dimension(config, "hidden_size", 16);
  h.layers = dimension(config, "num_hidden_layers");
  h.max_context = dimension(config, "max_position_embeddings");
  h.intermediate = dimension(config, "intermediate_size", 16);
  h.moe_intermediate = dimension(config, "moe_intermediate_size", 16);
  h.shared_intermediate =
      h.moe_intermediate * static_cast<int>(config.integer("n_shared_experts", {.min = 0, .max = 64}));
  h.norm_eps = static_cast<float>(config.real_or("rms_norm_eps", 1e-5, {.min = 0, .max = 1}));
  h.rope_theta = config.rope_theta();
  h.tied_head = config.boolean_or("tie_word_embeddings", false);

  const auto style = [&](std::string_view key) {
    return config.boolean_or(key, true) ? nn::RopeStyle::kInterleaved : nn::RopeStyle::kHalfSplit;
  };
  h.mla = {.hidden = h.hidden,
           .heads = dimension(config, "num_attention_heads"),
           .q_lora = dimension(config, "q_lora_rank", 16),
           .kv_lora = dimension(config, "kv_lora_rank", 16),
           .nope = dimension(config, "qk_nope_head_dim", 2),
           .rope = dimension(config, "qk_rope_head_dim", 2),
           .v = dimension(config, "v_head_dim"),
           .norm_eps = kMlaNormEps,
           .style = style("rope_interleave")};
  h.mla.scale = 1.0F / std::sqrt(static_cast<float>(h.mla.nope + h.mla.rope));
  if (h.mla.heads * h.mla.v % 16 != 0) {
    config.fail("v_head_dim", fmt::format("{} heads of {} are not a multiple of 16", h.mla.heads, h.mla.v));
  }
  h.dsa = {.heads = dimension(config, "index_n_heads"),
           .dim = dimension(config, "index_head_dim", 16),
           .rope = h.mla.rope,
           .top_k = dimension(config, "index_topk"),
           .style = style("indexer_rope_interleave")};
  if (h.dsa.rope > h.dsa.dim) config.fail("index_head_dim", "smaller than qk_rope_head_dim");

  h.sparse_mlp = read_mlp_types(config, h.layers);
  const std::vector<bool> own = read_own_indexers(config, h.layers);
  for (int i = 0; i < h.layers; ++i) {
    // With a context no longer than top_k everything is selected, and the indexer need not run.
    const bool dense = h.dsa.top_k >= h.max_context;
    h.sparsity.push_back(dense ? nn::Sparsity::kDense : own[i] ? nn::Sparsity::kOwn : nn::Sparsity::kShared);
  }
  h.router = read_router(config);
  return h;
}

struct Layer {
  std::vector<float> input_norm;      // [hidden]
  std::vector<float> attention_norm;  // [hidden], after attention
  nn::Mla attention;
  nn::Mla::Planes planes;
  std::optional<nn::Moe> moe;                 // a MoE layer
  std::optional<nn::GatedWeights> dense_mlp;  // or a dense one
};

nn::GatedWeights load_gated(const Checkpoint& file, const std::string& name, int hidden, int intermediate) {
  return {file.weight(name + ".gate_proj", {intermediate, hidden}),
          file.weight(name + ".up_proj", {intermediate, hidden}),
          file.weight(name + ".down_proj", {hidden, intermediate})};
}

nn::Mla load_attention(const Checkpoint& file, const std::string& name, const Hyperparameters& h,
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

nn::Moe load_moe(const Checkpoint& file, const std::string& name, const Hyperparameters& h,
                 base::ThreadPool& pool) {
  nn::Moe moe;
  moe.spec = h.router;
  moe.spec.correction_bias = file.vector(name + ".gate.e_score_correction_bias", h.router.experts);
  routing::validate(moe.spec, name);
  moe.router = nn::Linear(file.weight(name + ".gate", {h.router.experts, h.hidden}));
  if (moe.router.needs_quantized_rows())
    throw base::input_error("{}.gate: a quantised router is not supported", name);
  moe.experts = load_experts(pool, h.router.experts, [&](int e) {
    return load_gated(file, fmt::format("{}.experts.{}", name, e), h.hidden, h.moe_intermediate);
  });
  if (h.router.fused_shared_experts > 0) {
    // Several shared experts are stored as one network, so many times as wide.
    moe.experts.push_back(load_gated(file, name + ".shared_experts", h.hidden, h.shared_intermediate));
  }
  return moe;
}

// Buffers of one step. Rows are the batch's.
struct GlmWorkspace : Workspace {
  GlmWorkspace(const Hyperparameters& h, const WorkspaceLimits& limits)
      : residual(area(limits.rows, h.hidden)),
        normed(area(limits.rows, h.hidden)),
        block_out(area(limits.rows, h.hidden)),
        head_in(area(limits.logit_rows, h.hidden)),
        head_scratch(limits.logit_rows, h.hidden),
        angles(h.mla.rope, h.rope_theta, limits.rows),
        mla(h.mla, limits.rows, h.max_context, limits.workers),
        moe(h.router, limits.rows, limits.policy),
        gated(limits.rows, h.hidden, limits.rows * routing::plan_slots(h.router, limits.policy),
              std::max({h.intermediate, h.moe_intermediate, h.shared_intermediate}),
              h.router.plan_experts()) {
    for (std::int32_t r = 0; r < limits.rows; ++r) all_rows.push_back({r, 1.0F});
    if (h.sparsity[0] != nn::Sparsity::kDense) {
      dsa = nn::DsaWorkspace(h.dsa, limits.rows, h.max_context, limits.workers);
      selection = nn::SlotSelection(limits.rows, h.dsa.top_k);
    }
  }

  static std::size_t area(int a, int b) { return static_cast<std::size_t>(a) * static_cast<std::size_t>(b); }

  base::AlignedBuffer<float> residual;   // [rows, hidden]
  base::AlignedBuffer<float> normed;     // [rows, hidden]
  base::AlignedBuffer<float> block_out;  // [rows, hidden]
  base::AlignedBuffer<float> head_in;    // [logit rows, hidden]
  nn::QuantizedRows head_scratch;
  nn::RopeAngles angles;
  nn::MlaWorkspace mla;
  nn::DsaWorkspace dsa;
  nn::SlotSelection selection;
  nn::MoeWorkspace moe;
  nn::GatedWorkspace gated;
  std::vector<routing::PlanEntry> all_rows;  // [rows] every row with weight 1: the plan of a dense layer
};

class GlmMoeDsa : public Model {
 public:
  GlmMoeDsa(const Checkpoint& file, const LoadOptions& options)
      : kernels_(options.kernels), h_(read_config(file.config())) {
    embedding_ = Embedding(file.weight("model.embed_tokens", {h_.vocab, h_.hidden}));
    final_norm_ = file.vector("model.norm.weight", h_.hidden);
    head_ = nn::Linear(file.weight(h_.tied_head ? "model.embed_tokens" : "lm_head", {h_.vocab, h_.hidden}));
    info_ = {.architecture = "glm_moe_dsa",
             .vocab = h_.vocab,
             .max_context = h_.max_context,
             .layers = h_.layers,
             .experts = h_.router.experts,
             .top_k = h_.router.top_k,
             .dense_bytes = head_.bytes()};
    for (int i = 0; i < h_.layers; ++i) load_layer(file, i, options.pool);
  }

  const ModelInfo& info() const override { return info_; }

  std::unique_ptr<Workspace> make_workspace(const WorkspaceLimits& limits) const override {
    routing::validate(limits.policy, h_.router, "routing policy");
    return std::make_unique<GlmWorkspace>(h_, limits);
  }

  void forward(const Batch& batch, const StepContext& step, Workspace& workspace,
               std::span<float> logits) const override {
    auto& w = static_cast<GlmWorkspace&>(workspace);
    const nn::Context context{kernels_, step.pool};
    const nn::AttentionRows rows{batch.positions, batch.sequences, batch.tables};
    const int count = batch.rows();
    const std::size_t size = GlmWorkspace::area(count, h_.hidden);
    float* x = w.residual.data();
    embedding_.lookup(batch.ids, x);
    w.angles.set(batch.positions);
    observe(step, "embedding", {x, size});

    int moe_index = 0;
    for (int i = 0; i < h_.layers; ++i) {
      const Layer& layer = layers_[i];
      norm_rows(context, x, layer.input_norm, h_.norm_eps, count, w.normed.data());
      layer.attention.apply(context, rows, w.angles, w.normed.data(), step.kv, layer.planes, w.mla, w.dsa,
                            w.selection, w.block_out.data());
      add_rows(context, w.block_out.data(), count, h_.hidden, x);

      norm_rows(context, x, layer.attention_norm, h_.norm_eps, count, w.normed.data());
      if (layer.moe) {
        auto* stats = step.stats.empty() ? nullptr : &step.stats[moe_index];
        layer.moe->apply(context, w.normed.data(), batch.roles, h_.hidden, moe_index, step.policy, w.moe,
                         w.gated, w.block_out.data(), stats);
        ++moe_index;
      } else {
        const nn::ExpertGroup group{&*layer.dense_mlp,
                                    std::span(w.all_rows).first(static_cast<std::size_t>(count))};
        nn::apply_gated_experts(context, {&group, 1}, w.normed.data(), count, h_.hidden, w.gated,
                                w.block_out.data());
      }
      add_rows(context, w.block_out.data(), count, h_.hidden, x);
      if (step.observer != nullptr) observe(step, fmt::format("layer.{}", i), {x, size});
    }

    const int wanted = static_cast<int>(batch.logit_rows.size());
    for (int r = 0; r < wanted; ++r) {
      const float* row = x + GlmWorkspace::area(batch.logit_rows[r], h_.hidden);
      context.kernels.rms_norm(row, final_norm_.data(), h_.norm_eps, h_.hidden,
                               w.head_in.data() + GlmWorkspace::area(r, h_.hidden));
    }
    head_.apply(context, w.head_in.data(), wanted, logits.data(), w.head_scratch);
  }

 private:
  void load_layer(const Checkpoint& file, int i, base::ThreadPool& pool) {
    const std::string name = fmt::format("model.layers.{}", i);
    Layer layer;
    layer.input_norm = file.vector(name + ".input_layernorm.weight", h_.hidden);
    layer.attention_norm = file.vector(name + ".post_attention_layernorm.weight", h_.hidden);
    layer.attention = load_attention(file, name + ".self_attn", h_, h_.sparsity[i]);
    layer.planes.latent = add_plane(h_.mla.kv_lora);
    layer.planes.rope = add_plane(h_.mla.rope_width());
    if (layer.attention.indexer) layer.planes.index = add_plane(h_.dsa.dim);
    info_.dense_bytes += layer.attention.bytes();
    if (h_.sparse_mlp[i]) {
      layer.moe = load_moe(file, name + ".mlp", h_, pool);
      ++info_.moe_layers;
      info_.expert_bytes = layer.moe->experts.front().bytes();
      info_.dense_bytes += layer.moe->router.bytes();
      if (h_.router.fused_shared_experts > 0) info_.dense_bytes += layer.moe->experts.back().bytes();
    } else {
      layer.dense_mlp = load_gated(file, name + ".mlp", h_.hidden, h_.intermediate);
      info_.dense_bytes += layer.dense_mlp->bytes();
    }
    layers_.push_back(std::move(layer));
  }

  int add_plane(int width) {
    info_.kv_planes.push_back(width);
    return static_cast<int>(info_.kv_planes.size()) - 1;
  }

  const kernels::Kernels& kernels_;
  Hyperparameters h_;
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
