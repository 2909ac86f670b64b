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
#include "checkpoint/checkpoint.h"
#include "kernels/select.h"
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

int rows_of(const StepCase& c) { return std::max(c.sequences, c.prompt); }

void print_json(const ModelBenchOptions& options, const kernels::Kernels& kernels, int threads,
                const models::ModelInfo& info, const StepPlan& plan, const std::vector<StepResult>& results,
                const Ceilings& ceilings, double peak) {
  nlohmann::ordered_json report{{"model", options.model.model.string()},
                                {"cpu", base::detect_cpu().name},
                                {"isa", kernels.name},
                                {"threads", threads},
                                {"policy", routing::to_string(plan.policy)},
                                {"bytes_per_second", ceilings.bytes_per_second()},
                                {"products_per_second", ceilings.products_per_second()},
                                {"packed_bytes", info.packed_bytes},
                                {"peak_rss_bytes", peak}};
  for (std::size_t i = 0; i < results.size(); ++i) {
    const StepCase& c = plan.cases[i];
    const StepResult& r = results[i];
    report["cases"].push_back({{"rows", rows_of(c)},
                               {"prefill", c.prompt > 0},
                               {"tokens_per_second", rows_of(c) / r.seconds},
                               {"milliseconds", r.seconds * 1e3},
                               {"bytes", r.bytes},
                               {"experts", r.experts},
                               {"experts_uniform", r.experts_uniform},
                               {"floor_milliseconds", r.floor_seconds * 1e3},
                               {"hash", fmt::format("{:016x}", r.hash)}});
  }
  fmt::print("{}\n", report.dump(2));
}

void print_table(const kernels::Kernels& kernels, int threads, const models::ModelInfo& info,
                 const StepPlan& plan, const std::vector<StepResult>& results, const Ceilings& ceilings,
                 double peak) {
  fmt::print("{}, {} threads, {} kernels, routing {}\n", base::detect_cpu().name, threads, kernels.name,
             routing::to_string(plan.policy));
  fmt::print("ceilings in this run: {:.1f} GB/s read, {:.0f} G int8 products/s\n",
             ceilings.bytes_per_second() / 1e9, ceilings.products_per_second() / 1e9);
  fmt::print("{}: {} layers, {} experts, top-{}, {:.2f} GB packed\n\n", info.architecture, info.layers,
             info.router.experts, info.router.top_k, static_cast<double>(info.packed_bytes) / 1e9);
  fmt::print("{:>12} {:>10} {:>10} {:>9} {:>7} {:>8} {:>8} {:>9} {:>6}  {}\n", "batch", "tok/s", "ms/step",
             "MB/step", "GB/s", "experts", "uniform", "floor ms", "share", "hash");
  for (std::size_t i = 0; i < results.size(); ++i) {
    const StepResult& r = results[i];
    fmt::print("{:>12} {:>10.1f} {:>10.2f} {:>9.1f} {:>7.1f} {:>8.1f} {:>8.1f} {:>9.2f} {:>5.0f}%  {:016x}\n",
               case_name(plan.cases[i]), rows_of(plan.cases[i]) / r.seconds, r.seconds * 1e3, r.bytes / 1e6,
               r.bytes / r.seconds / 1e9, r.experts, r.experts_uniform, r.floor_seconds * 1e3,
               100 * r.floor_seconds / r.seconds, r.hash);
  }
  fmt::print("\npeak memory {:.2f} GB, {:.1f} % above the packed weights\n", peak / 1e9,
             100 * (peak / static_cast<double>(info.packed_bytes) - 1));
}

void run_model_bench(const ModelBenchOptions& options) {
  if (options.model.model.empty()) throw CLI::RequiredError("model, or a subcommand");
  const kernels::Kernels& kernels =
      kernels::select_kernels(options.model.isa, kernels::parse_compute(options.model.compute));
  base::ThreadPool pool = base::ThreadPool::for_this_machine(options.model.threads);
  pool.pin_caller();
  std::unique_ptr<models::Model> model;
  {
    const auto checkpoint = checkpoint::Checkpoint::open(options.model.model);
    model = models::load_model(checkpoint, {.kernels = kernels, .pool = pool});
  }
  const models::ModelInfo& info = model->info();
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

  const double peak_of_loading = peak_memory();
  Ceilings ceilings(kernels, pool);
  auto bar = std::make_unique<ProgressBar>();
  bar->begin("measuring", options.rounds);
  const auto results = bench_steps(*model, pool, plan, ceilings, [&] { bar->advance(); });
  bar.reset();  // clears its line before the table
  // The buffer of the ceilings is none of the model's; it came after loading.
  const double peak = std::max(peak_of_loading, peak_memory() - static_cast<double>(Ceilings::kBytes));
  if (options.json) {
    print_json(options, kernels, pool.size(), info, plan, results, ceilings, peak);
  } else {
    print_table(kernels, pool.size(), info, plan, results, ceilings, peak);
  }
}

}  // namespace

void add_model_bench(CLI::App& bench) {
  const auto options = std::make_shared<ModelBenchOptions>();
  add_model_options(bench, options->model);
  bench.get_option("model")->required(false);  // a subcommand may stand in its place
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
                 "Feed random tokens, not those that the model would say");
  bench.add_flag("--json", options->json, "Print JSON");
  bench.callback([&bench, options] {
    if (bench.get_subcommands().empty()) run_model_bench(*options);
  });
}

}  // namespace tagalong::tools
