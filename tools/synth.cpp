// `tagalong synth`: writes a checkpoint of a known shape with random weights.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>

#include "commands.h"
#include "progress_bar.h"
#include "synthetic_checkpoint.h"
#include "synthetic_model.h"

namespace tagalong::tools {

namespace {

struct SynthOptions {
  std::filesystem::path directory;
  SyntheticShape shape;
  std::string format = "nvfp4";
  std::uint64_t seed = 1;
};

void write_model(const SynthOptions& options) {
  SyntheticShape shape = options.shape;
  shape.nvfp4 = options.format == "nvfp4";
  const SyntheticModel model = synthetic_model(shape);
  std::size_t bytes = 0;
  {
    ProgressBar bar;
    bytes = write_checkpoint(model, options.directory, options.seed, [&](int done, int total) {
      if (done == 1) bar.begin("writing", total);
      bar.advance();
    });
  }
  fmt::print("{}: {:.2f} GB\n", options.directory.string(), static_cast<double>(bytes) / 1e9);
}

}  // namespace

void add_synth_command(CLI::App& app) {
  auto options = std::make_shared<SynthOptions>();
  CLI::App* command = app.add_subcommand("synth", "Write a checkpoint of a known shape with random weights");
  command->add_option("directory", options->directory, "Where to write config.json and model.safetensors")
      ->required();
  command
      ->add_option("--like", options->shape.like,
                   "Shape of this model: qwen3-30b-a3b, glm-5, qwen3-tiny, glm-tiny")
      ->capture_default_str();
  command->add_option("--layers", options->shape.layers, "Layers (default: the model's)")
      ->check(CLI::Range(1, 1024));
  command->add_option("--vocab", options->shape.vocab, "Tokens of the vocabulary (default: the model's)")
      ->check(CLI::Range(1, 1 << 21));
  command
      ->add_option("--format", options->format,
                   "Of all matrices but the routers', embedding and head included: nvfp4 or bf16")
      ->check(CLI::IsMember({"nvfp4", "bf16"}))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "Of the random weights")->capture_default_str();
  command->callback([options] { write_model(*options); });
}

}  // namespace tagalong::tools
