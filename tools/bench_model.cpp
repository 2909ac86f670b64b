// `tagalong bench MODEL`: the speed of whole decode steps and of a prefill.
#include <fmt/format.h>
#include <sys/resource.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/cpu_info.h"
#include "base/error.h"
#include "model_bench.h"
#include "model_options.h"
#include "progress_bar.h"

namespace tagalong::tools {

namespace {

struct ModelBenchOptions {
  ModelOptions model;
  std::vector<int> batches{1, 4, 16, 64};
  int prefill = 512;
  int rounds = 5;
  int steps = 3;
  bool random_tokens = false;
  bool json = false;
};

// The most memory that the process has had so far, in bytes.
double peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

std::string case_name(const StepCase& c) {
  return c.prompt > 0 ? fmt::format("prefill {}", c.prompt) : fmt::format("{}", c.sequences);
}

// Everything that is told at the end.
struct Report {
  const ModelBenchOptions& options;
  const LoadedModel& loaded;
  const StepPlan& plan;
  const std::vector<StepResult>& results;
  const Ceilings& ceilings;
  double peak;  // of memory, in bytes

  const models::ModelInfo& info() const { return loaded.model->info(); }
  const char* tune() const { return options.model.tune ? "auto" : "off"; }
};

void print_json(const Report& report) {
  nlohmann::ordered_json json{{"model", report.options.model.model.string()},
                              {"cpu", base::detect_cpu().name},
                              {"isa", report.loaded.kernels.name},
                              {"threads", report.loaded.pool.size()},
                              {"policy", routing::to_string(report.plan.policy)},
                              {"tune", report.tune()},
                              {"bytes_per_second", report.ceilings.bytes_per_second()},
                              {"products_per_second", report.ceilings.products_per_second()},
                              {"packed_bytes", report.info().packed_bytes},
                              {"peak_rss_bytes", report.peak}};
  for (std::size_t i = 0; i < report.results.size(); ++i) {
    const StepCase& c = report.plan.cases[i];
    const StepResult& r = report.results[i];
    json["cases"].push_back({{"rows", c.rows()},
                             {"prefill", c.prompt > 0},
                             {"tuning", to_string(report.plan.tuning.for_rows(c.rows()))},
                             {"tokens_per_second", c.rows() / r.seconds},
                             {"milliseconds", r.seconds * 1e3},
                             {"bytes", r.bytes},
                             {"experts", r.experts},
                             {"experts_uniform", r.experts_uniform},
                             {"floor_milliseconds", r.floor_seconds * 1e3},
                             {"hash", fmt::format("{:016x}", r.hash)}});
  }
  fmt::print("{}\n", json.dump(2));
}

void print_table(const Report& report) {
  const models::ModelInfo& info = report.info();
  fmt::print("{}, {} threads, {} kernels, routing {}, tune {}\n", base::detect_cpu().name,
             report.loaded.pool.size(), report.loaded.kernels.name, routing::to_string(report.plan.policy),
             report.tune());
  fmt::print("ceilings in this run: {:.1f} GB/s read, {:.0f} G int8 products/s\n",
             report.ceilings.bytes_per_second() / 1e9, report.ceilings.products_per_second() / 1e9);
  fmt::print("{}: {} layers, {} experts, top-{}, {:.2f} GB packed\n\n", info.architecture, info.layers,
             info.router.experts, info.router.top_k, static_cast<double>(info.packed_bytes) / 1e9);
  fmt::print("{:>12} {:>10} {:>10} {:>9} {:>7} {:>8} {:>8} {:>9} {:>6}  {:<16}  {}\n", "batch", "tok/s",
             "ms/step", "MB/step", "GB/s", "experts", "uniform", "floor ms", "share", "hash", "tuning");
  for (std::size_t i = 0; i < report.results.size(); ++i) {
    const StepCase& c = report.plan.cases[i];
    const StepResult& r = report.results[i];
    fmt::print(
        "{:>12} {:>10.1f} {:>10.2f} {:>9.1f} {:>7.1f} {:>8.1f} {:>8.1f} {:>9.2f} {:>5.0f}%  {:016x}  {}\n",
        case_name(c), c.rows() / r.seconds, r.seconds * 1e3, r.bytes / 1e6, r.bytes / r.seconds / 1e9,
        r.experts, r.experts_uniform, r.floor_seconds * 1e3, 100 * r.floor_seconds / r.seconds, r.hash,
        to_string(report.plan.tuning.for_rows(c.rows())));
  }
  fmt::print("\npeak memory {:.2f} GB, {:.1f} % above the packed weights\n", report.peak / 1e9,
             100 * (report.peak / static_cast<double>(info.packed_bytes) - 1));
}

void run_model_bench(const ModelBenchOptions& options) {
  if (options.model.model.empty()) throw CLI::RequiredError("model, or a subcommand");
  LoadedModel loaded(options.model);
  const double peak_of_loading = peak_memory();
  const models::ModelInfo& info = loaded.model->info();
  StepPlan plan{.cases = {},
                .rounds = options.rounds,
                .steps = options.steps,
                .random_tokens = options.random_tokens,
                .kv_type = cache::parse_kv_type(options.model.kv_type),
                .policy = routing_policy(options.model, info)};
  for (const int batch : options.batches) plan.cases.push_back({.sequences = batch});
  if (options.prefill > 0) plan.cases.push_back({.prompt = options.prefill});
  const int longest = std::max(options.prefill, (options.rounds + 1) * options.steps);
  if (longest > info.max_context) {
    throw base::input_error("{} positions are needed, but the model's context holds {}", longest,
                            info.max_context);
  }
  plan.tuning = loaded.tuning();

  loaded.pool.pin_caller();
  Ceilings ceilings(loaded.kernels, loaded.pool);
  auto bar = std::make_unique<ProgressBar>();
  bar->begin("measuring", options.rounds);
  const auto results = bench_steps(*loaded.model, loaded.pool, plan, ceilings, [&] { bar->advance(); });
  bar.reset();  // clears its line before the table
  const Report report{
      .options = options,
      .loaded = loaded,
      .plan = plan,
      .results = results,
      .ceilings = ceilings,
      // The buffer of the ceilings, here and in the tuner, is none of the model's; it came after loading.
      .peak = std::max(peak_of_loading, peak_memory() - static_cast<double>(Ceilings::kBytes))};
  if (options.json) {
    print_json(report);
  } else {
    print_table(report);
  }
}

}  // namespace

void add_model_bench(CLI::App& bench) {
  const auto options = std::make_shared<ModelBenchOptions>();
  add_model_options(bench, options->model);
  bench.get_option("model")->required(false);  // a subcommand may stand in its place
  add_tune_option(bench, options->model);
  add_routing_options(bench, options->model);
  bench.add_option("-b,--batch", options->batches, "Sequences that decode together")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096));
  bench.add_option("--prefill", options->prefill, "Tokens of a prompt to measure too; 0: none")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  bench.add_option("--rounds", options->rounds, "Rounds, interleaving all cases")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  bench.add_option("--steps", options->steps, "Decode steps of each batch size in a round")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  bench.add_flag("--random-tokens", options->random_tokens,
                 "Feed random tokens, not those that the model would say; none is chosen then");
  bench.add_flag("--json", options->json, "Print JSON");
  bench.callback([&bench, options] {
    if (bench.get_subcommands().empty()) run_model_bench(*options);
  });
}

}  // namespace tagalong::tools
