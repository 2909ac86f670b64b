#include "models/glm_moe_dsa_config.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "checkpoint/config.h"
#include "models/decoder_config.h"

namespace tagalong::models {

namespace {

using checkpoint::Config;
using checkpoint::kDimension;

// transformers builds the norms inside MLA with this, whatever rms_norm_eps says, and the bundled model is
// trained so.
constexpr float kMlaNormEps = 1e-6F;

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

}  // namespace

GlmConfig read_glm_config(const Config& config) {
  GlmConfig h;
  h.decoder = read_decoder_config(config, 1e-5);
  DecoderConfig& d = h.decoder;
  read_feed_forward(config, read_mlp_types(config, d.layers), d);
  d.router = read_router(config);
  d.shared_intermediate =
      d.moe_intermediate * static_cast<int>(config.integer("n_shared_experts", {.min = 0, .max = 64}));

  const auto style = [&](std::string_view key) {
    return config.boolean_or(key, true) ? nn::RopeStyle::kInterleaved : nn::RopeStyle::kHalfSplit;
  };
  h.mla = {.hidden = d.hidden,
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

  const std::vector<bool> own = read_own_indexers(config, d.layers);
  for (int i = 0; i < d.layers; ++i) {
    // With a context no longer than top_k everything is selected, and the indexer need not run.
    const bool dense = h.dsa.top_k >= d.max_context;
    h.sparsity.push_back(dense ? nn::Sparsity::kDense : own[i] ? nn::Sparsity::kOwn : nn::Sparsity::kShared);
  }
  return h;
}

}  // namespace tagalong::models
