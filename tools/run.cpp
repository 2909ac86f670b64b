// tagalong run: continues a text on the terminal, token by token.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "base/error.h"
#include "commands.h"
#include "engine/engine.h"
#include "engine/logits_hash.h"
#include "model_options.h"
#include "tokenizer/stream_decoder.h"

namespace tagalong::tools {

namespace {

struct RunOptions {
  ModelOptions model;
  std::string prompt;
  int max_tokens = 256;
  // Where absent, the model's generation_config.json decides.
  std::optional<float> temperature;
  std::optional<int> top_k;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<std::uint64_t> seed;
};

engine::SamplingParams sampling(const RunOptions& options, engine::SamplingParams params) {
  params.temperature = options.temperature.value_or(params.temperature);
  params.top_k = options.top_k.value_or(params.top_k);
  params.top_p = options.top_p.value_or(params.top_p);
  params.min_p = options.min_p.value_or(params.min_p);
  params.seed = options.seed ? *options.seed : std::random_device()();
  return params;
}

void write(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

double per_second(std::uint64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

void run(const RunOptions& options) {
  TextModel loaded(options.model);
  engine::EngineOptions sizes = engine_options(options.model, loaded.model->info());
  sizes.tuning = loaded.tuning();
  sizes.max_sequences = 1;
  engine::Engine engine(*loaded.model, loaded.pool, sizes);

  engine::Request request;
  request.prompt = loaded.tokenizer.encode(options.prompt);
  request.max_tokens = options.max_tokens;
  request.sampling = sampling(options, loaded.generation.sampling);
  request.stop_ids = loaded.generation.stop_ids;
  const engine::SamplingParams params = request.sampling;

  tokenizer::StreamDecoder decoder(loaded.tokenizer, {.skip_special = true});
  std::uint64_t hash = 0;
  engine.submit(std::move(request), [&](const engine::TokenEvent& event) {
    hash = engine::hash_logits(event.logits);
    // A vocabulary padded to a round number has ids that are no tokens.
    if (loaded.tokenizer.has_token(event.id)) write(decoder.push(event.id));
    if (event.finish) write(decoder.finish());
  });
  write(options.prompt);
  engine.pin_thread();
  while (engine.step()) {
  }
  write("\n");

  const engine::EngineStats stats = engine.stats();
  fmt::print(
      stderr,
      "\n{} prompt tokens, {:.1f} tokens/s; {} generated, {:.1f} tokens/s; {}, {} threads, {}, seed {}, "
      "logits {:016x}\n",
      stats.prompt_tokens, per_second(stats.prompt_tokens, stats.step_seconds - stats.decode_seconds),
      stats.generated_tokens, per_second(stats.decode_tokens, stats.decode_seconds), loaded.kernels.name,
      loaded.pool.size(), routing::to_string(sizes.policy), params.seed, hash);
}

}  // namespace

void add_run_command(CLI::App& app) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("run", "Continue a text on the terminal");
  add_model_options(*command, options->model);
  command->add_option("-p,--prompt", options->prompt, "The text to continue")->required();
  command->add_option("-n,--max-tokens", options->max_tokens, "Tokens to generate at most")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  const std::string group = "Sampling (default: what the model's generation_config.json says)";
  command->add_option("--temperature", options->temperature, "0 always takes the likeliest token")
      ->group(group);
  command->add_option("--top-k", options->top_k, "Draw from the k likeliest tokens; 0 from all")
      ->group(group);
  command->add_option("--top-p", options->top_p, "Draw from the fewest tokens that reach this probability")
      ->group(group);
  command
      ->add_option("--min-p", options->min_p,
                   "Leave out tokens below this share of the likeliest one's chance")
      ->group(group);
  command->add_option("--seed", options->seed, "The same seed gives the same text; random by default")
      ->group(group);
  add_tune_option(*command, options->model);
  add_routing_options(*command, options->model);
  command->callback([options] { run(*options); });
}

}  // namespace tagalong::tools
