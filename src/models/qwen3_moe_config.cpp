#include "models/qwen3_moe_config.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "models/decoder_config.h"

namespace tagalong::models {

namespace {

using checkpoint::Config;
using checkpoint::kDimension;

// A layer is dense if mlp_only_layers lists it, otherwise every decoder_sparse_step-th layer is a MoE layer.
std::vector<bool> read_sparse_layers(const Config& config, int layers) {
  std::vector<bool> sparse(static_cast<std::size_t>(layers));
  const auto step = config.integer_or("decoder_sparse_step", 1, kDimension);
  for (int i = 0; i < layers; ++i) sparse[i] = (i + 1) % step == 0;
  if (config.has("mlp_only_layers")) {
    for (const auto i : config.integers("mlp_only_layers", {.min = 0, .max = kDimension.max})) {
      if (i < layers) sparse[static_cast<std::size_t>(i)] = false;
    }
  }
  return sparse;
}

routing::RouterSpec read_router(const Config& config) {
  routing::RouterSpec spec;
  spec.scoring = routing::Scoring::kSoftmax;
  // transformers 5 writes the second name, the published checkpoints have the first.
  spec.experts = dimension(config, config.has("num_local_experts") ? "num_local_experts" : "num_experts");
  spec.top_k = dimension(config, "num_experts_per_tok");
  spec.renormalise = config.boolean_or("norm_topk_prob", false);
  routing::validate(spec, "config.json");
  return spec;
}

nn::GqaConfig read_attention(const Config& config, int hidden, float norm_eps) {
  nn::GqaConfig c{.hidden = hidden,
                  .heads = dimension(config, "num_attention_heads"),
                  .kv_heads = dimension(config, "num_key_value_heads"),
                  .norm_eps = norm_eps};
  if (c.heads % c.kv_heads != 0) {
    config.fail("num_key_value_heads", fmt::format("{} does not divide {} heads", c.kv_heads, c.heads));
  }
  if (config.has("head_dim")) {
    c.head_dim = dimension(config, "head_dim", 16);
  } else if (hidden % c.heads != 0 || hidden / c.heads % 16 != 0) {
    config.fail("head_dim",
                fmt::format("missing, and {} values in {} heads are no multiples of 16", hidden, c.heads));
  } else {
    c.head_dim = hidden / c.heads;
  }
  c.scale = 1.0F / std::sqrt(static_cast<float>(c.head_dim));
  return c;
}

}  // namespace

Qwen3MoeConfig read_qwen3_moe_config(const Config& config) {
  if (config.boolean_or("use_sliding_window", false)) {
    config.fail("use_sliding_window", "sliding windows are not supported");
  }
  DecoderConfig h = read_decoder_config(config, 1e-6);
  h.router = read_router(config);
  read_feed_forward(config, read_sparse_layers(config, h.layers), h);
  nn::GqaConfig attention = read_attention(config, h.hidden, h.norm_eps);
  return {.decoder = std::move(h), .attention = attention};
}

}  // namespace tagalong::models
