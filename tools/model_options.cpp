#include "model_options.h"

#include <spdlog/spdlog.h>

#include <charconv>
#include <cstdlib>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "base/cpu_info.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "checkpoint/checkpoint.h"

namespace tagalong::tools {

namespace {

constexpr int kMostThreads = 1024;
constexpr std::string_view kAlias = "SGLANG_OEA_K0";  // what the original campaign on GLM-5 called it

// The alias counts only where neither flag nor TAGALONG_OEA_K0 is given.
void read_alias(int& k0) {
  const char* value = std::getenv(std::string(kAlias).c_str());
  if (value == nullptr) return;
  const std::string_view text = value;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), k0);
  if (error != std::errc() || end != text.data() + text.size() || k0 < 1 || k0 > routing::kMaxTopK) {
    throw CLI::ValidationError(std::string(kAlias), fmt::format("'{}' is not a number of experts, 1 to {}",
                                                                text, routing::kMaxTopK));
  }
}

GenerationDefaults read_generation(const std::filesystem::path& directory, int vocab) {
  GenerationDefaults defaults;
  const checkpoint::Config config = checkpoint::Config::load(directory);
  const checkpoint::Config* source = &config;
  std::optional<checkpoint::Config> generation;
  const std::filesystem::path path = directory / "generation_config.json";
  if (std::filesystem::exists(path)) {
    generation = checkpoint::Config::parse(base::read_text_file(path), "generation_config.json");
    engine::SamplingParams& sampling = defaults.sampling;
    sampling.temperature = static_cast<float>(generation->real_or("temperature", 1));
    sampling.top_k = static_cast<int>(generation->integer_or("top_k", 0, {.min = 0, .max = 1 << 30}));
    sampling.top_p = static_cast<float>(generation->real_or("top_p", 1));
    sampling.min_p = static_cast<float>(generation->real_or("min_p", 0));
    if (!generation->boolean_or("do_sample", true)) sampling.temperature = 0;
    try {
      engine::validate(sampling);
    } catch (const base::InputError& error) {
      throw base::input_error("{}: {}", path.string(), error.what());
    }
    if (generation->has("eos_token_id")) source = &*generation;
  }
  if (source->has("eos_token_id")) {
    for (const std::int64_t id : source->integers("eos_token_id", {.min = 0, .max = vocab - 1})) {
      defaults.stop_ids.push_back(static_cast<std::int32_t>(id));
    }
  }
  return defaults;
}

tokenizer::Tokenizer load_tokenizer(const std::filesystem::path& directory) {
  if (!std::filesystem::is_directory(directory)) {
    throw base::input_error(
        "{}: no such directory, expected one with config.json, model.safetensors and "
        "tokenizer.json",
        directory.string());
  }
  return tokenizer::Tokenizer::load(directory);
}

}  // namespace

void add_model_options(CLI::App& command, ModelOptions& options) {
  command.add_option("model", options.model, "Directory of a Hugging Face checkpoint")->required();
  command.add_option("-t,--threads", options.threads, "Threads; 0 is one for each core that may be used")
      ->check(CLI::Range(0, kMostThreads))
      ->envname("TAGALONG_THREADS")
      ->capture_default_str();
  add_numa_option(command, options.numa);
  command
      .add_option("--isa", options.isa,
                  "Instruction set of the kernels: auto, avx512, avx512_vnni, avx2_vnni, avx2 or scalar")
      ->envname("TAGALONG_ISA")
      ->capture_default_str();
  command
      .add_option("--compute", options.compute,
                  "Rounding of activations before quantised weights: fast (8 bits) or accurate (15 bits)")
      ->envname("TAGALONG_COMPUTE")
      ->capture_default_str();
  command.add_option("--kv-type", options.kv_type, "Number format of the KV cache: bf16, f32 or fp8")
      ->envname("TAGALONG_KV_TYPE")
      ->capture_default_str();
  command
      .add_option("-c,--context", options.context, "Tokens a sequence may have; 0 is what the model allows")
      ->check(CLI::NonNegativeNumber)
      ->envname("TAGALONG_CONTEXT")
      ->capture_default_str();
}

void add_numa_option(CLI::App& command, base::Numa& numa) {
  command
      .add_option("--numa", numa,
                  "auto: on a machine of several NUMA nodes, keep threads and the weights that they read on "
                  "the same node; off: leave both to the system. No result depends on it")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, base::Numa>{{"auto", base::Numa::kAuto}, {"off", base::Numa::kOff}}))
      ->envname("TAGALONG_NUMA")
      ->default_str("auto");
}

void add_tune_option(CLI::App& command, ModelOptions& options) {
  options.tune = true;
  command
      .add_option(
          "--tune", options.tune,
          "auto: use this machine's fastest settings, measured for up to ten seconds at the first start; "
          "off: the defaults. No result depends on it")
      ->transform(CLI::CheckedTransformer(std::map<std::string, bool>{{"auto", true}, {"off", false}}))
      ->envname("TAGALONG_TUNE")
      ->default_str("auto");
}

void add_routing_options(CLI::App& command, ModelOptions& options) {
  const std::string group = "Batch-aware routing";
  CLI::Option* k0 =
      command
          .add_option(
              "--oea-k0", options.oea_k0,
              "Experts that each decoding token brings into the batch's set; all its others it takes from "
              "that set. The model's own number or more is exact. Off by default")
          ->check(CLI::Range(1, routing::kMaxTopK))
          ->envname("TAGALONG_OEA_K0")
          ->group(group);
  command
      .add_option("--oea-min-rows", options.oea_min_rows,
                  "With fewer decoding tokens in a step, route exactly")
      ->check(CLI::PositiveNumber)
      ->envname("TAGALONG_OEA_MIN_ROWS")
      ->capture_default_str()
      ->group(group);
  command
      .add_option(
          "--policy", options.policy,
          "A routing policy in full, such as oea:k0=4,min_rows=4; the flags above then count for nothing")
      ->envname("TAGALONG_POLICY")
      ->group(group);
  command.parse_complete_callback([k0, &options] {
    if (k0->count() == 0) read_alias(options.oea_k0);
  });
}

LoadedModel::LoadedModel(const ModelOptions& options)
    : pool(base::ThreadPool::for_this_machine(options.threads, options.numa)),
      kernels(kernels::select_kernels(options.isa, kernels::parse_compute(options.compute))) {
  if (kernels.name == "scalar" && options.isa == "auto") {
    spdlog::warn("{} has no AVX2: running the scalar kernels, which are many times slower",
                 base::detect_cpu().name);
  }
  if (options.tune) auto_tune.emplace(kernels);
  model = models::load_model(
      checkpoint::Checkpoint::open(options.model),
      {.kernels = kernels, .pool = pool, .pages = auto_tune ? auto_tune->pages() : base::Pages::kHuge});
}

kernels::TuningTable LoadedModel::tuning() {
  return auto_tune ? auto_tune->table(*model, pool) : kernels::TuningTable{};
}

TextModel::TextModel(const ModelOptions& options) : TextModel(options, load_tokenizer(options.model)) {}

TextModel::TextModel(const ModelOptions& options, tokenizer::Tokenizer loaded)
    : LoadedModel(options), tokenizer(std::move(loaded)) {
  const int vocab = model->info().vocab;
  if (tokenizer.vocab_size() > vocab) {
    throw base::input_error("{}: the tokenizer has {} tokens, but config.json's vocab_size is {}",
                            options.model.string(), tokenizer.vocab_size(), vocab);
  }
  generation = read_generation(options.model, vocab);
}

std::string model_name(const ModelOptions& options) {
  return std::filesystem::weakly_canonical(options.model).filename().string();
}

routing::RoutingPolicy routing_policy(const ModelOptions& options, const models::ModelInfo& info) {
  if (!options.policy.empty()) return routing::parse_policy(options.policy);
  routing::RoutingPolicy policy;
  if (options.oea_k0 > 0 && options.oea_k0 < info.router.top_k) {
    policy.kind = routing::PolicyKind::kOea;
    policy.k0 = options.oea_k0;
    policy.min_rows = options.oea_min_rows;
  }
  return policy;
}

engine::EngineOptions engine_options(const ModelOptions& options, const models::ModelInfo& info) {
  return {.max_context = options.context,
          .kv_type = cache::parse_kv_type(options.kv_type),
          .policy = routing_policy(options, info)};
}

}  // namespace tagalong::tools
