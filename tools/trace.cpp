// tagalong trace: runs a model over prompts and writes down how its MoE layers routed, as JSON lines that
// `tagalong route` replays.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "commands.h"
#include "engine/engine.h"
#include "model_options.h"
#include "routing/recorder.h"
#include "whole_file.h"

namespace tagalong::tools {

namespace {

struct TraceOptions {
  ModelOptions model;
  std::vector<std::string> prompts;
  std::filesystem::path prompt_file;
  int max_tokens = 64;
  int rows = 16;
  std::uint64_t seed = 1;
  std::string mode = "per_token";
  std::filesystem::path out;
};

std::vector<std::string> read_prompts(const TraceOptions& options) {
  std::vector<std::string> prompts = options.prompts;
  if (options.prompt_file.empty()) return prompts;
  std::istringstream lines(base::read_text_file(options.prompt_file));
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) prompts.push_back(line);
  }
  if (prompts.empty()) throw base::input_error("{}: no prompts", options.prompt_file.string());
  return prompts;
}

void print_totals(std::string_view name, std::uint64_t steps, const routing::RoutingTotals& totals) {
  fmt::print("{:<22} {:>6} {:>8} {:>8.1f} {:>7.1f} {:>7.3f}\n", name, steps, totals.rows,
             totals.mean_experts_exact(), totals.mean_experts(), totals.mean_kept_mass());
}

void trace(const TraceOptions& options) {
  const routing::RecorderMode mode = routing::parse_recorder_mode(options.mode);
  const std::vector<std::string> prompts = read_prompts(options);
  TextModel loaded(options.model);
  const models::ModelInfo& info = loaded.model->info();
  engine::EngineOptions sizes = engine_options(options.model, info);
  WholeFile file(options.out);
  routing::Recorder recorder(mode, model_name(options.model), sizes.policy, info.router, info.moe_layers,
                             file.stream());
  sizes.max_sequences = options.rows;
  sizes.max_batch_tokens = std::max(sizes.max_batch_tokens, options.rows);
  sizes.recorder = &recorder;
  engine::Engine engine(*loaded.model, loaded.pool, sizes);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    engine::Request request;
    request.prompt = loaded.tokenizer.encode(prompts[i]);
    request.max_tokens = options.max_tokens;
    request.sampling = loaded.generation.sampling;
    request.sampling.seed = options.seed + i;
    request.stop_ids = loaded.generation.stop_ids;
    engine.submit(std::move(request), [](const engine::TokenEvent&) {});
  }
  while (engine.step()) {
  }
  recorder.finish();
  file.finish();

  const engine::EngineStats stats = engine.stats();
  routing::RoutingTotals all = stats.decode_routing;
  all.add(stats.mixed_routing);
  fmt::print("{}: {} prompts, {} tokens generated, {} MoE layers, {}\n", options.out.string(), prompts.size(),
             stats.generated_tokens, info.moe_layers, routing::to_string(sizes.policy));
  fmt::print("{:<22} {:>6} {:>8} {:>8} {:>7} {:>7}\n", "", "steps", "rows", "T exact", "T", "mass");
  print_totals("steps that only decode", stats.decode_steps, stats.decode_routing);
  print_totals("steps with prompts", stats.steps - stats.decode_steps, stats.mixed_routing);
  print_totals("all", stats.steps, all);
}

}  // namespace

void add_trace_command(CLI::App& app) {
  auto options = std::make_shared<TraceOptions>();
  CLI::App* command = app.add_subcommand("trace", "Record the routing of a run, for tagalong route");
  add_model_options(*command, options->model);
  CLI::Option_group* source = command->add_option_group("Prompts", "At least one of these");
  source->add_option("-p,--prompt", options->prompts, "A text to continue; may be repeated");
  source->add_option("--prompts", options->prompt_file, "File of texts to continue, one a line");
  source->require_option(1, 2);
  command->add_option("-n,--max-tokens", options->max_tokens, "Tokens to generate for each prompt at most")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--rows", options->rows, "Prompts that run at once")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "Of the first prompt's draws; the next ones count on from it")
      ->capture_default_str();
  command
      ->add_option(
          "--mode", options->mode,
          "per_token: the experts and weights of every row, which tagalong route replays; per_pass: the "
          "rows of each expert, per layer and step; stat: sums per layer")
      ->capture_default_str();
  command->add_option("--out", options->out, "File to write, JSON lines")->required();
  add_routing_options(*command, options->model);
  command->callback([options] { trace(*options); });
}

}  // namespace tagalong::tools
