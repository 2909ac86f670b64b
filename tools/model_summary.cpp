#include "model_summary.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>

#include "tensor/dtype.h"

namespace tagalong::tools {

namespace {

using checkpoint::Checkpoint;
using checkpoint::Config;
using tensor::DType;
using tensor::Tensor;

constexpr std::array kDimensionKeys{"vocab_size",
                                    "hidden_size",
                                    "num_hidden_layers",
                                    "num_attention_heads",
                                    "num_key_value_heads",
                                    "head_dim",
                                    "q_lora_rank",
                                    "kv_lora_rank",
                                    "qk_nope_head_dim",
                                    "qk_rope_head_dim",
                                    "v_head_dim",
                                    "intermediate_size",
                                    "moe_intermediate_size",
                                    "first_k_dense_replace",
                                    "n_routed_experts",
                                    "num_experts",
                                    "num_local_experts",
                                    "num_experts_per_tok",
                                    "n_shared_experts",
                                    "index_n_heads",
                                    "index_head_dim",
                                    "index_topk",
                                    "max_position_embeddings"};

constexpr std::string_view kRoutedExperts = "routed experts";
constexpr std::string_view kEmbedding = "embedding";
constexpr std::string_view kIndexer = "indexer";
constexpr std::string_view kPrediction = "next-token prediction";

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// The number that follows `label` in the name, "model.layers.12.mlp" and ".layers." giving 12.
std::optional<std::int64_t> number_after(std::string_view name, std::string_view label) {
  const std::size_t place = name.find(label);
  if (place == std::string_view::npos) return std::nullopt;
  std::int64_t number = 0;
  const char* begin = name.data() + place + label.size();
  const auto [end, error] = std::from_chars(begin, name.data() + name.size(), number);
  if (error != std::errc() || end == begin || number < 0) return std::nullopt;
  return number;
}

// First match wins.
std::string_view group_of(std::string_view name, std::int64_t layers) {
  if (number_after(name, ".layers.").value_or(0) >= layers) return kPrediction;
  if (contains(name, ".experts.")) return kRoutedExperts;
  if (contains(name, ".shared_expert")) return "shared experts";
  if (contains(name, ".gate.") || contains(name, ".router.") || contains(name, "e_score_correction_bias")) {
    return "routers";
  }
  if (contains(name, ".indexer.")) return kIndexer;
  if (contains(name, "norm")) return "norms";
  if (contains(name, "attn.") || contains(name, "attention.")) return "attention";
  if (contains(name, ".mlp.")) return "dense feed-forward";
  if (contains(name, "embed_tokens")) return kEmbedding;
  if (contains(name, "lm_head")) return "output head";
  return "other";
}

// Values that one token adds to the cache, all layers together.
std::optional<std::int64_t> kv_values(const Config& config, std::int64_t layers, std::int64_t indexers) {
  constexpr auto kRange = checkpoint::kDimension;
  if (config.has("kv_lora_rank") && config.has("qk_rope_head_dim")) {
    const std::int64_t latent =
        config.integer("kv_lora_rank", kRange) + config.integer("qk_rope_head_dim", kRange);
    return layers * latent + indexers * config.integer_or("index_head_dim", 0, {.min = 0, .max = kRange.max});
  }
  if (!config.has("num_attention_heads") || !config.has("hidden_size")) return std::nullopt;
  const std::int64_t heads = config.integer("num_attention_heads", kRange);
  const std::int64_t head_dim =
      config.integer_or("head_dim", config.integer("hidden_size", kRange) / heads, kRange);
  return layers * 2 * config.integer_or("num_key_value_heads", heads, kRange) * head_dim;
}

std::string architecture_of(const Config& config) {
  if (!config.has("architectures")) return "";
  const std::vector<std::string> names = config.strings("architectures");
  return names.empty() ? "" : names.front();
}

void add_tensor(TensorGroup& group, const StoredAs& stored, std::int64_t bytes) {
  ++group.tensors;
  group.parameters += stored.parameters;
  group.bytes += bytes;
  group.formats[stored.format] += bytes;
}

// Counts what is known of the experts while the tensors pass by.
struct ExpertCount {
  std::set<std::int64_t> numbers;
  std::int64_t stacked = 0;  // experts of a tensor that holds all of them
  std::int64_t bytes = 0;

  void add(const Tensor& tensor) {
    bytes += byte_size(tensor);
    if (const auto number = number_after(tensor.name, ".experts.")) {
      numbers.insert(*number);
    } else if (tensor.shape.rank() >= 2) {
      stacked = std::max(stacked, tensor.shape[0]);
    }
  }
  ExpertLayer result() const { return {std::max(static_cast<std::int64_t>(numbers.size()), stacked), bytes}; }
};

}  // namespace

std::int64_t byte_size(const Tensor& tensor) {
  return tensor.shape.elements() * static_cast<std::int64_t>(tensor::dtype_bytes(tensor.dtype));
}

StoredAs stored_as(const Checkpoint& checkpoint, const Tensor& tensor) {
  constexpr std::string_view kWeight = ".weight";
  const std::string_view name = tensor.name;
  for (const std::string_view suffix :
       {kWeight, std::string_view(".weight_scale"), std::string_view(".weight_scale_2"),
        std::string_view(".input_scale")}) {
    if (!name.ends_with(suffix)) continue;
    const std::string module(name.substr(0, name.size() - suffix.size()));
    if (!checkpoint.has(module + ".weight") || !checkpoint.has(module + ".weight_scale")) break;
    if (checkpoint.tensor(module + ".weight").dtype != DType::kU8 ||
        checkpoint.tensor(module + ".weight_scale").dtype != DType::kF8E4M3) {
      break;
    }
    return {"NVFP4", suffix == kWeight ? 2 * tensor.shape.elements() : 0};
  }
  return {std::string(tensor::dtype_name(tensor.dtype)), tensor.shape.elements()};
}

ModelSummary summarize(const Checkpoint& checkpoint) {
  const Config& config = checkpoint.config();
  ModelSummary summary;
  summary.model_type = config.model_type();
  summary.architecture = architecture_of(config);
  summary.declared_quantization = checkpoint.declared().name;
  for (const char* key : kDimensionKeys) {
    if (config.has(key)) summary.dimensions.emplace_back(key, config.integer(key));
  }
  const std::int64_t layers = config.integer("num_hidden_layers", checkpoint::kDimension);
  const std::int64_t experts_per_token =
      config.integer_or("num_experts_per_tok", 0, {.min = 0, .max = checkpoint::kDimension.max});
  summary.experts_per_token = experts_per_token;
  // As long as everything that fits into the context is selected anyway, no indexer runs.
  const bool indexer_runs = config.has("index_topk") && config.has("max_position_embeddings") &&
                            config.integer("index_topk") < config.integer("max_position_embeddings");
  // The embedding is read a row at a time, unless it serves as output head too.
  const bool tied = config.boolean_or("tie_word_embeddings", false) && !checkpoint.has("lm_head.weight");

  std::map<std::string_view, TensorGroup> groups;
  std::map<std::int64_t, ExpertCount> experts;
  std::set<std::int64_t> indexers;
  for (const Tensor* tensor : checkpoint.tensors()) {
    const std::string_view group = group_of(tensor->name, layers);
    const StoredAs stored = stored_as(checkpoint, *tensor);
    const std::int64_t layer = number_after(tensor->name, ".layers.").value_or(0);
    add_tensor(groups[group], stored, byte_size(*tensor));
    add_tensor(summary.total, stored, byte_size(*tensor));
    if (group == kIndexer) indexers.insert(layer);
    if (group == kRoutedExperts) {
      experts[layer].add(*tensor);
    } else if (group != kPrediction && (group != kEmbedding || tied) && (group != kIndexer || indexer_runs)) {
      summary.fixed_bytes += byte_size(*tensor);
    }
  }
  for (auto& [name, group] : groups) {
    group.name = name;
    summary.groups.push_back(std::move(group));
  }
  std::sort(summary.groups.begin(), summary.groups.end(),
            [](const TensorGroup& a, const TensorGroup& b) { return a.bytes > b.bytes; });
  summary.total.name = "total";
  for (const auto& [layer, count] : experts) summary.expert_layers.push_back(count.result());
  summary.kv_values_per_token =
      kv_values(config, layers, indexer_runs ? static_cast<std::int64_t>(indexers.size()) : 0);
  return summary;
}

double ModelSummary::expected_distinct(std::int64_t experts, std::int64_t rows) const {
  if (experts == 0) return 0;
  const double missed =
      1 - std::min(1.0, static_cast<double>(experts_per_token) / static_cast<double>(experts));
  return static_cast<double>(experts) * (1 - std::pow(missed, static_cast<double>(rows)));
}

double ModelSummary::expert_bytes_per_step(std::int64_t rows) const {
  double bytes = 0;
  for (const ExpertLayer& layer : expert_layers) {
    if (layer.experts == 0) continue;
    bytes += static_cast<double>(layer.bytes) / static_cast<double>(layer.experts) *
             expected_distinct(layer.experts, rows);
  }
  return bytes;
}

double ModelSummary::mean_distinct(std::int64_t rows) const {
  if (expert_layers.empty()) return 0;
  double sum = 0;
  for (const ExpertLayer& layer : expert_layers) sum += expected_distinct(layer.experts, rows);
  return sum / static_cast<double>(expert_layers.size());
}

}  // namespace tagalong::tools
