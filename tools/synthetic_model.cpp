#include "synthetic_model.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <functional>
#include <utility>

#include "base/error.h"

namespace tagalong::tools {

namespace {

using nlohmann::ordered_json;

// Of the attention's output. Attention leaves what the positions of a sequence have in common as it is and
// averages the rest away; with a gain of one the common part would double from layer to layer, and all tokens
// of a long prompt would come to the same experts.
constexpr float kAttentionGain = 0.25F;

class Builder {
 public:
  explicit Builder(bool nvfp4) : matrix_fill_(nvfp4 ? Fill::kNvfp4 : Fill::kBf16) {}

  // Rows that make outputs of size `gain` of unit inputs.
  void matrix(const std::string& name, int rows, int columns, float gain = 1.0F) {
    tensors_.push_back({name + ".weight", rows, columns, matrix_fill_, gain * unit_rms(columns)});
  }
  // A matrix that is never quantised: the router's.
  void router(const std::string& name, int rows, int columns) {
    tensors_.push_back({name + ".weight", rows, columns, Fill::kBf16, unit_rms(columns)});
  }
  // Rows of unit values.
  void embedding(const std::string& name, int rows, int columns) {
    tensors_.push_back({name + ".weight", rows, columns, matrix_fill_, 1.0F});
  }
  void norm(const std::string& name, int size) {
    tensors_.push_back({name + ".weight", size, 0, Fill::kOnes, 1.0F});
  }
  void zeros(const std::string& name, int size) { tensors_.push_back({name, size, 0, Fill::kZeros, 0.0F}); }
  void mlp(const std::string& name, int hidden, int inner) {
    matrix(name + ".gate_proj", inner, hidden);
    matrix(name + ".up_proj", inner, hidden);
    matrix(name + ".down_proj", hidden, inner);
  }

  std::vector<SyntheticTensor> take() { return std::move(tensors_); }

 private:
  static float unit_rms(int columns) { return 1.0F / std::sqrt(static_cast<float>(columns)); }

  Fill matrix_fill_;
  std::vector<SyntheticTensor> tensors_;
};

void declare_nvfp4(ordered_json& config) {
  const ordered_json weights{{"num_bits", 4}, {"type", "float"}, {"group_size", 16}, {"dynamic", false}};
  config["quantization_config"] = {
      {"quant_method", "modelopt"},
      {"quant_algo", "NVFP4"},
      {"config_groups", {{"group_0", {{"weights", weights}, {"targets", {"Linear"}}}}}},
      {"ignore", {"*.mlp.gate"}}};
}

// What the shapes of all architectures have in common: everything but attention.
struct Frame {
  int layers, vocab, hidden, experts, top_k, inner;
};

// Appends the keys that all architectures have under the same names.
void describe_frame(const Frame& m, int heads, ordered_json& config) {
  config.update({{"vocab_size", m.vocab},
                 {"hidden_size", m.hidden},
                 {"moe_intermediate_size", m.inner},
                 {"num_hidden_layers", m.layers},
                 {"num_attention_heads", heads},
                 {"num_experts_per_tok", m.top_k},
                 {"norm_topk_prob", true},
                 {"hidden_act", "silu"},
                 {"attention_bias", false},
                 {"tie_word_embeddings", false}});
}

// The tensors of a model in order. attention(prefix) and before_experts(prefix) add what is the
// architecture's own, the latter between a layer's router and its experts.
std::vector<SyntheticTensor> frame_tensors(const Frame& m, Builder& b,
                                           const std::function<void(const std::string&)>& attention,
                                           const std::function<void(const std::string&)>& before_experts) {
  b.embedding("model.embed_tokens", m.vocab, m.hidden);
  for (int i = 0; i < m.layers; ++i) {
    const std::string layer = fmt::format("model.layers.{}.", i);
    const std::string mlp = layer + "mlp.";
    b.norm(layer + "input_layernorm", m.hidden);
    b.norm(layer + "post_attention_layernorm", m.hidden);
    attention(layer + "self_attn.");
    b.router(mlp + "gate", m.experts, m.hidden);
    before_experts(mlp);
    for (int e = 0; e < m.experts; ++e) b.mlp(fmt::format("{}experts.{}", mlp, e), m.hidden, m.inner);
  }
  b.norm("model.norm", m.hidden);
  b.matrix("lm_head", m.vocab, m.hidden);
  return b.take();
}

struct Qwen3Shape {
  Frame frame;
  int heads, kv_heads, head_dim;
};

// Qwen3-30B-A3B's config.json, but for the sizes.
SyntheticModel qwen3_moe(const Qwen3Shape& m, bool nvfp4) {
  const Frame& f = m.frame;
  ordered_json config{{"architectures", {"Qwen3MoeForCausalLM"}},
                      {"model_type", "qwen3_moe"},
                      {"intermediate_size", f.inner * f.top_k},
                      {"num_key_value_heads", m.kv_heads},
                      {"head_dim", m.head_dim},
                      {"num_experts", f.experts},
                      {"decoder_sparse_step", 1},
                      {"mlp_only_layers", ordered_json::array()},
                      {"rope_theta", 1000000.0},
                      {"max_position_embeddings", 40960},
                      {"rms_norm_eps", 1e-6}};
  describe_frame(f, m.heads, config);
  Builder b(nvfp4);
  const auto attention = [&](const std::string& prefix) {
    b.matrix(prefix + "q_proj", m.heads * m.head_dim, f.hidden);
    b.matrix(prefix + "k_proj", m.kv_heads * m.head_dim, f.hidden);
    b.matrix(prefix + "v_proj", m.kv_heads * m.head_dim, f.hidden);
    b.norm(prefix + "q_norm", m.head_dim);
    b.norm(prefix + "k_norm", m.head_dim);
    b.matrix(prefix + "o_proj", f.hidden, m.heads * m.head_dim, kAttentionGain);
  };
  return {.config = std::move(config), .tensors = frame_tensors(f, b, attention, [](const std::string&) {})};
}

struct GlmShape {
  Frame frame;
  int heads, q_lora, kv_lora, nope, rope, v, index_heads, index_head_dim, index_top_k;
};

// GLM-5's config.json, but for the sizes, and no dense layers at the beginning.
SyntheticModel glm_moe_dsa(const GlmShape& m, bool nvfp4) {
  const Frame& f = m.frame;
  ordered_json config{{"architectures", {"GlmMoeDsaForCausalLM"}},
                      {"model_type", "glm_moe_dsa"},
                      {"intermediate_size", f.inner * 6},
                      {"first_k_dense_replace", 0},
                      {"num_key_value_heads", m.heads},
                      {"q_lora_rank", m.q_lora},
                      {"kv_lora_rank", m.kv_lora},
                      {"qk_nope_head_dim", m.nope},
                      {"qk_rope_head_dim", m.rope},
                      {"v_head_dim", m.v},
                      {"n_routed_experts", f.experts},
                      {"n_shared_experts", 1},
                      {"n_group", 1},
                      {"topk_group", 1},
                      {"routed_scaling_factor", 2.5},
                      {"scoring_func", "sigmoid"},
                      {"topk_method", "noaux_tc"},
                      {"index_topk", m.index_top_k},
                      {"index_n_heads", m.index_heads},
                      {"index_head_dim", m.index_head_dim},
                      {"rope_interleave", true},
                      {"indexer_rope_interleave", true},
                      {"rope_parameters", {{"rope_theta", 1000000.0}, {"rope_type", "default"}}},
                      {"max_position_embeddings", 202752},
                      {"rms_norm_eps", 1e-5}};
  describe_frame(f, m.heads, config);
  Builder b(nvfp4);
  const auto attention = [&](const std::string& prefix) {
    b.matrix(prefix + "q_a_proj", m.q_lora, f.hidden);
    b.norm(prefix + "q_a_layernorm", m.q_lora);
    b.matrix(prefix + "q_b_proj", m.heads * (m.nope + m.rope), m.q_lora);
    b.matrix(prefix + "kv_a_proj_with_mqa", m.kv_lora + m.rope, f.hidden);
    b.norm(prefix + "kv_a_layernorm", m.kv_lora);
    b.matrix(prefix + "kv_b_proj", m.heads * (m.nope + m.v), m.kv_lora);
    b.matrix(prefix + "o_proj", f.hidden, m.heads * m.v, kAttentionGain);
    b.matrix(prefix + "indexer.wq_b", m.index_heads * m.index_head_dim, m.q_lora);
    b.matrix(prefix + "indexer.wk", m.index_head_dim, f.hidden);
    b.norm(prefix + "indexer.k_norm", m.index_head_dim);
    b.zeros(prefix + "indexer.k_norm.bias", m.index_head_dim);
    b.matrix(prefix + "indexer.weights_proj", m.index_heads, f.hidden);
  };
  const auto bias_and_shared = [&](const std::string& prefix) {
    b.zeros(prefix + "gate.e_score_correction_bias", f.experts);
    b.mlp(prefix + "shared_experts", f.hidden, f.inner);
  };
  return {.config = std::move(config), .tensors = frame_tensors(f, b, attention, bias_and_shared)};
}

// The small ones are for tests and for trying things out.
constexpr Qwen3Shape kQwen3A3b{
    .frame = {.layers = 48, .vocab = 151936, .hidden = 2048, .experts = 128, .top_k = 8, .inner = 768},
    .heads = 32,
    .kv_heads = 4,
    .head_dim = 128};
constexpr Qwen3Shape kQwen3Tiny{
    .frame = {.layers = 4, .vocab = 512, .hidden = 256, .experts = 32, .top_k = 4, .inner = 64},
    .heads = 8,
    .kv_heads = 2,
    .head_dim = 32};
constexpr GlmShape kGlm5{
    .frame = {.layers = 78, .vocab = 154880, .hidden = 6144, .experts = 256, .top_k = 8, .inner = 2048},
    .heads = 64,
    .q_lora = 2048,
    .kv_lora = 512,
    .nope = 192,
    .rope = 64,
    .v = 256,
    .index_heads = 32,
    .index_head_dim = 128,
    .index_top_k = 2048};
constexpr GlmShape kGlmTiny{
    .frame = {.layers = 4, .vocab = 512, .hidden = 256, .experts = 32, .top_k = 4, .inner = 64},
    .heads = 4,
    .q_lora = 64,
    .kv_lora = 64,
    .nope = 32,
    .rope = 16,
    .v = 32,
    .index_heads = 4,
    .index_head_dim = 32,
    .index_top_k = 64};

template <typename Shape>
Shape resized(Shape model, const SyntheticShape& wanted) {
  if (wanted.layers > 0) model.frame.layers = wanted.layers;
  if (wanted.vocab > 0) model.frame.vocab = wanted.vocab;
  return model;
}

struct NamedModel {
  std::string_view name;
  SyntheticModel (*make)(const SyntheticShape& wanted);
};

constexpr std::array kModels{
    NamedModel{"qwen3-30b-a3b",
               [](const SyntheticShape& s) { return qwen3_moe(resized(kQwen3A3b, s), s.nvfp4); }},
    NamedModel{"qwen3-tiny",
               [](const SyntheticShape& s) { return qwen3_moe(resized(kQwen3Tiny, s), s.nvfp4); }},
    NamedModel{"glm-5", [](const SyntheticShape& s) { return glm_moe_dsa(resized(kGlm5, s), s.nvfp4); }},
    NamedModel{"glm-tiny",
               [](const SyntheticShape& s) { return glm_moe_dsa(resized(kGlmTiny, s), s.nvfp4); }},
};

}  // namespace

SyntheticModel synthetic_model(const SyntheticShape& shape) {
  std::string names;
  for (const NamedModel& known : kModels) {
    if (known.name != shape.like) {
      names += (names.empty() ? "" : ", ") + std::string(known.name);
      continue;
    }
    SyntheticModel model = known.make(shape);
    model.config["torch_dtype"] = "bfloat16";
    if (shape.nvfp4) declare_nvfp4(model.config);
    return model;
  }
  throw base::input_error("no model shape is named '{}'; known: {}", shape.like, names);
}

}  // namespace tagalong::tools
