// `tagalong inspect MODEL`: what a checkpoint is made of and what it costs to read.
//
// Opens the files as the server does, so that everything wrong with them is said, but loads no model.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "checkpoint/checkpoint.h"
#include "commands.h"
#include "model_summary.h"
#include "tensor/dtype.h"

namespace tagalong::tools {

namespace {

using checkpoint::Checkpoint;
using nlohmann::ordered_json;

constexpr std::int64_t kBatch = 16;
constexpr std::int64_t kCacheValueBytes = 2;  // BF16

struct InspectOptions {
  std::filesystem::path model;
  bool tensors = false;
  bool json = false;
};

// Decimal units, as for bandwidths.
std::string human(double value, std::string_view unit) {
  for (const char* prefix : {"", " k", " M", " G"}) {
    if (value < 999.5) {
      return *prefix == '\0' ? fmt::format("{:.0f}{}{}", value, unit.empty() ? "" : " ", unit)
                             : fmt::format("{:.3g}{}{}", value, prefix, unit);
    }
    value /= 1000;
  }
  return fmt::format("{:.4g} T{}", value, unit);
}

std::string bytes(double count) { return human(count, "B"); }
std::string bytes(std::int64_t count) { return bytes(static_cast<double>(count)); }

std::string formats(const TensorGroup& group) {
  std::string text;
  for (const auto& [format, size] : group.formats) text += (text.empty() ? "" : ", ") + format;
  return text;
}

void print_group(const TensorGroup& group) {
  fmt::print("  {:<22} {:>8} {:>12} {:>10}  {}\n", group.name, group.tensors,
             human(static_cast<double>(group.parameters), ""), bytes(group.bytes), formats(group));
}

void print_step(const ModelSummary& summary, std::int64_t rows) {
  const double experts = summary.expert_bytes_per_step(rows);
  const double step = experts + static_cast<double>(summary.fixed_bytes);
  fmt::print("  {:>2} {:<5}  {:>10} a step = {} + {} of experts", rows, rows == 1 ? "row" : "rows",
             bytes(step), bytes(summary.fixed_bytes), bytes(experts));
  if (!summary.expert_layers.empty()) fmt::print(" ({:.1f} a layer)", summary.mean_distinct(rows));
  fmt::print("; {} a token\n", bytes(step / static_cast<double>(rows)));
}

void print_summary(const Checkpoint& checkpoint, const ModelSummary& summary) {
  fmt::print("{}\n", checkpoint.directory().string());
  fmt::print("  architecture   {}{}\n", summary.model_type,
             summary.architecture.empty() ? "" : " (" + summary.architecture + ")");
  if (!summary.declared_quantization.empty())
    fmt::print("  quantization   {}\n", summary.declared_quantization);
  fmt::print("  files          {}\n\nDimensions\n", checkpoint.files().size());
  for (const auto& [key, value] : summary.dimensions) fmt::print("  {:<24} {:>10}\n", key, value);

  fmt::print("\n  {:<22} {:>8} {:>12} {:>10}  {}\n", "Weights", "tensors", "parameters", "size", "formats");
  for (const TensorGroup& group : summary.groups) print_group(group);
  print_group(summary.total);

  fmt::print("\nWeights streamed in decode\n");
  print_step(summary, 1);
  print_step(summary, kBatch);
  if (!summary.expert_layers.empty()) {
    fmt::print("  For {} rows the experts are expected values, as if each token chose its {} at random.\n",
               kBatch, summary.experts_per_token);
  }
  if (summary.kv_values_per_token) {
    fmt::print("\nKV cache: {} a token in BF16\n", bytes(*summary.kv_values_per_token * kCacheValueBytes));
  }
}

void print_tensors(const Checkpoint& checkpoint) {
  fmt::print("\nTensors\n");
  for (const tensor::Tensor* tensor : checkpoint.tensors()) {
    fmt::print("  {:<8} {:<20} {:>12}  {}\n", tensor::dtype_name(tensor->dtype), to_string(tensor->shape),
               byte_size(*tensor), tensor->name);
  }
}

ordered_json step_json(const ModelSummary& summary, std::int64_t rows) {
  return {{"rows", rows},
          {"distinct_experts_per_layer", summary.mean_distinct(rows)},
          {"expert_bytes", summary.expert_bytes_per_step(rows)},
          {"fixed_bytes", summary.fixed_bytes}};
}

void print_json(const Checkpoint& checkpoint, const ModelSummary& summary, bool with_tensors) {
  ordered_json root{{"directory", checkpoint.directory().string()},
                    {"model_type", summary.model_type},
                    {"architecture", summary.architecture},
                    {"declared_quantization", summary.declared_quantization},
                    {"files", checkpoint.files().size()}};
  for (const auto& [key, value] : summary.dimensions) root["dimensions"][key] = value;
  const auto group_json = [](const TensorGroup& group) {
    return ordered_json{{"name", group.name},
                        {"tensors", group.tensors},
                        {"parameters", group.parameters},
                        {"bytes", group.bytes},
                        {"bytes_by_format", group.formats}};
  };
  for (const TensorGroup& group : summary.groups) root["groups"].push_back(group_json(group));
  root["total"] = group_json(summary.total);
  root["moe_layers"] = summary.expert_layers.size();
  root["decode_steps"] = {step_json(summary, 1), step_json(summary, kBatch)};
  if (summary.kv_values_per_token)
    root["kv_bytes_per_token"] = *summary.kv_values_per_token * kCacheValueBytes;
  if (with_tensors) {
    for (const tensor::Tensor* tensor : checkpoint.tensors()) {
      const auto extents = tensor->shape.extents();
      root["tensors"].push_back({{"name", tensor->name},
                                 {"dtype", tensor::dtype_name(tensor->dtype)},
                                 {"shape", std::vector<std::int64_t>(extents.begin(), extents.end())},
                                 {"bytes", byte_size(*tensor)}});
    }
  }
  fmt::print("{}\n", root.dump(2, ' ', false, ordered_json::error_handler_t::replace));
}

void inspect(const InspectOptions& options) {
  const Checkpoint checkpoint = Checkpoint::open(options.model);
  const ModelSummary summary = summarize(checkpoint);
  if (options.json) {
    print_json(checkpoint, summary, options.tensors);
    return;
  }
  print_summary(checkpoint, summary);
  if (options.tensors) print_tensors(checkpoint);
}

}  // namespace

void add_inspect_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("inspect", "Show what a checkpoint holds and what a decode step reads");
  const auto options = std::make_shared<InspectOptions>();
  command->add_option("model", options->model, "Directory of a Hugging Face checkpoint")->required();
  command->add_flag("--tensors", options->tensors, "List every tensor: dtype, shape, bytes, name");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options] { inspect(*options); });
}

}  // namespace tagalong::tools
