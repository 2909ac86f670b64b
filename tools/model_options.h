// The flags with which every command loads and runs a model, and the model they lead to. Used by main's
// thread.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "auto_tune.h"
#include "base/thread_pool.h"
#include "engine/engine.h"
#include "engine/sampling.h"
#include "kernels/select.h"
#include "kernels/tuning.h"
#include "models/model.h"
#include "routing/routing_policy.h"
#include "tokenizer/tokenizer.h"

namespace tagalong::tools {

struct ModelOptions {
  std::filesystem::path model;  // a checkpoint directory
  int threads = 0;              // 0: one for each usable core
  base::Numa numa = base::Numa::kAuto;
  std::string isa = "auto";
  std::string compute = "fast";
  std::string kv_type = "bf16";
  int context = 0;  // tokens of a sequence; 0: the model's
  int oea_k0 = 0;   // 0: off
  int oea_min_rows = 4;
  std::string policy;  // as in routing::parse_policy; empty: what the oea flags say
  bool tune = false;   // look up or measure the fastest settings
};

// Adds MODEL and the flags above, but those of routing, to a subcommand; `options` must live until the
// command has run.
void add_model_options(CLI::App& command, ModelOptions& options);
// Adds --numa, one of the flags above, for commands that have their own.
void add_numa_option(CLI::App& command, base::Numa& numa);
// Adds --tune, with which a command that serves for long finds its fastest settings.
void add_tune_option(CLI::App& command, ModelOptions& options);
// Adds the flags that choose the routing.
void add_routing_options(CLI::App& command, ModelOptions& options);

// How the model's makers would sample, from generation_config.json, and where its answers end.
struct GenerationDefaults {
  engine::SamplingParams sampling;
  std::vector<std::int32_t> stop_ids;
};

// What every command that computes with a model has.
struct LoadedModel {
  // Throws InputError for whatever is wrong with flags or files.
  explicit LoadedModel(const ModelOptions& options);

  // The fastest settings for the model here, which a first call may measure for ten seconds; without --tune
  // auto the defaults.
  kernels::TuningTable tuning();

  base::ThreadPool pool;
  const kernels::Kernels& kernels;
  std::unique_ptr<models::Model> model;
  std::optional<AutoTune> auto_tune;  // with options.tune
};

// A model that reads and writes text.
struct TextModel : LoadedModel {
  // Throws InputError as above, and first of all if there is no tokenizer.
  explicit TextModel(const ModelOptions& options);

  tokenizer::Tokenizer tokenizer;
  GenerationDefaults generation;

 private:
  TextModel(const ModelOptions& options, tokenizer::Tokenizer loaded);
};

// "storyteller" for models/storyteller and for models/storyteller/.
std::string model_name(const ModelOptions& options);

// What --policy and the --oea flags ask for.
routing::RoutingPolicy routing_policy(const ModelOptions& options, const models::ModelInfo& info);

// An engine's options as the flags want them; the sizes are left to the command.
engine::EngineOptions engine_options(const ModelOptions& options, const models::ModelInfo& info);

}  // namespace tagalong::tools
