// tagalong serve: the model behind an OpenAI-compatible HTTP API, until a signal ends it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "build_info.h"
#include "commands.h"
#include "engine/engine.h"
#include "engine/engine_loop.h"
#include "model_options.h"
#include "server/http_server.h"
#include "server/service.h"
#include "tokenizer/chat_template.h"

namespace tagalong::tools {

namespace {

constexpr int kExitSignalBase = 128;  // as shells report an end by a signal
constexpr int kMaxSequences = 1024;
constexpr int kMaxQueue = 100'000;
constexpr int kMaxDrainSeconds = 3600;

struct ServeOptions {
  ModelOptions model;
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;
  std::filesystem::path api_key_file;
  std::string served_model_name;
  int max_sequences = 16;
  int queue = 64;
  int drain_seconds = 30;
};

void serve(const ServeOptions& options) {
  server::HttpServerOptions http;
  http.host = options.host;
  http.port = options.port;
  http.drain_timeout = std::chrono::seconds(options.drain_seconds);
  http.handle_signals = true;

  server::ServiceOptions service_options;
  service_options.model_name =
      options.served_model_name.empty() ? model_name(options.model) : options.served_model_name;
  service_options.version = kVersion;
  service_options.queue = options.queue;
  if (!options.api_key_file.empty()) service_options.keys = server::ApiKeys::load(options.api_key_file);

  TextModel loaded(options.model);
  engine::EngineOptions sizes = engine_options(options.model, loaded.model->info());
  sizes.tuning = loaded.tuning();
  sizes.max_sequences = options.max_sequences;
  sizes.max_batch_tokens = std::max(sizes.max_batch_tokens, options.max_sequences);
  service_options.sampling = loaded.generation.sampling;
  service_options.stop_ids = loaded.generation.stop_ids;

  // Bound before the engine takes its memory, so that a taken port is told at once.
  server::HttpServer http_server(http);
  engine::Engine engine(*loaded.model, loaded.pool, sizes);
  server::Service service(http_server, engine, loaded.tokenizer,
                          tokenizer::ChatTemplate::load(options.model.model), service_options);
  engine::EngineLoop loop(engine);

  const bool open = options.host != "127.0.0.1" && options.host != "::1" && options.host != "localhost";
  if (open && service_options.keys.empty()) {
    spdlog::warn("serve: everyone who can reach {} may use it: no --api-key-file was given",
                 http_server.address());
  }
  fmt::print("{} serves {} ({} kernels, {} threads, routing {})\n", http_server.address(),
             service_options.model_name, loaded.kernels.name, loaded.pool.size(),
             routing::to_string(sizes.policy));
  std::fflush(stdout);

  const server::ServerOutcome outcome =
      http_server.run([&service](const server::ExchangePtr& exchange) { service.handle(exchange); });
  loop.stop();
  if (!outcome.drained) throw CLI::RuntimeError(kExitSignalBase + outcome.signal);
}

}  // namespace

void add_serve_command(CLI::App& app) {
  auto options = std::make_shared<ServeOptions>();
  CLI::App* command = app.add_subcommand("serve", "Serve a model over HTTP, with OpenAI's API");
  add_model_options(*command, options->model);
  add_tune_option(*command, options->model);
  add_routing_options(*command, options->model);
  const std::string group = "Server";
  command->add_option("--host", options->host, "Address to listen on; 0.0.0.0 is all of them")
      ->envname("TAGALONG_HOST")
      ->capture_default_str()
      ->group(group);
  command->add_option("--port", options->port, "Port to listen on; 0 is any free one")
      ->envname("TAGALONG_PORT")
      ->capture_default_str()
      ->group(group);
  command
      ->add_option("--api-key-file", options->api_key_file,
                   "File with one key a line; clients must then show one of them")
      ->envname("TAGALONG_API_KEY_FILE")
      ->group(group);
  command
      ->add_option("--served-model-name", options->served_model_name,
                   "What clients call the model; the directory's name by default")
      ->envname("TAGALONG_SERVED_MODEL_NAME")
      ->group(group);
  command->add_option("--max-sequences", options->max_sequences, "Sequences that run at once")
      ->check(CLI::Range(1, kMaxSequences))
      ->envname("TAGALONG_MAX_SEQUENCES")
      ->capture_default_str()
      ->group(group);
  command
      ->add_option("--queue", options->queue,
                   "Sequences that may wait beside them; more are answered with 429")
      ->check(CLI::Range(0, kMaxQueue))
      ->envname("TAGALONG_QUEUE")
      ->capture_default_str()
      ->group(group);
  command
      ->add_option(
          "--drain-seconds", options->drain_seconds,
          "After SIGTERM or SIGINT, time for running requests to finish; a second signal ends at once")
      ->check(CLI::Range(0, kMaxDrainSeconds))
      ->envname("TAGALONG_DRAIN_SECONDS")
      ->capture_default_str()
      ->group(group);
  command->callback([options] { serve(*options); });
}

}  // namespace tagalong::tools
