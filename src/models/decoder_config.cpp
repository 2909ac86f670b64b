#include "models/decoder_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tagalong::models {

using checkpoint::Config;

namespace {

void refuse_unless_plain(const Config& config) {
  for (const char* key : {"attention_bias", "mlp_bias"}) {
    if (config.boolean_or(key, false)) config.fail(key, "biases are not supported");
  }
  if (const auto act = config.string_or("hidden_act", "silu"); act != "silu") {
    config.fail("hidden_act", "'" + act + "' is not supported, only silu");
  }
  // Older files call the object rope_scaling, and the type `type`.
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const auto rope = config.optional_object(key);
    if (!rope) continue;
    const char* type_key = rope->has("rope_type") ? "rope_type" : "type";
    if (const auto type = rope->string_or(type_key, "default"); type != "default") {
      rope->fail(type_key, "'" + type + "' is not supported, only default");
    }
  }
}

}  // namespace

int dimension(const Config& config, std::string_view key, int multiple) {
  const auto value = static_cast<int>(config.integer(key, checkpoint::kDimension));
  if (value % multiple != 0) config.fail(key, fmt::format("{} is not a multiple of {}", value, multiple));
  return value;
}

DecoderConfig read_decoder_config(const Config& config, double norm_eps) {
  refuse_unless_plain(config);
  DecoderConfig h;
  h.vocab = dimension(config, "vocab_size");
  h.hidden = dimension(config, "hidden_size", 16);
  h.layers = dimension(config, "num_hidden_layers");
  h.max_context = dimension(config, "max_position_embeddings");
  h.norm_eps = static_cast<float>(config.real_or("rms_norm_eps", norm_eps, {.min = 0, .max = 1}));
  h.rope_theta = config.rope_theta();
  h.tied_head = config.boolean_or("tie_word_embeddings", false);
  return h;
}

void read_feed_forward(const Config& config, std::vector<bool> sparse_mlp, DecoderConfig& h) {
  h.sparse_mlp = std::move(sparse_mlp);
  h.moe_intermediate = dimension(config, "moe_intermediate_size", 16);
  if (std::count(h.sparse_mlp.begin(), h.sparse_mlp.end(), false) > 0) {
    h.intermediate = dimension(config, "intermediate_size", 16);
  }
}

}  // namespace tagalong::models
