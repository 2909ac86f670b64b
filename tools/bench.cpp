// `tagalong bench layer`: the speed of one MoE layer beside the machine's ceilings.
#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/cpu_info.h"
#include "base/error.h"
#include "commands.h"
#include "kernels/select.h"
#include "layer_bench.h"
#include "model_bench.h"
#include "model_options.h"
#include "progress_bar.h"
#include "synthetic_layer.h"

namespace tagalong::tools {

namespace {

struct LayerBenchOptions {
  std::string like = "qwen3-30b-a3b";
  LayerShape shape;  // zeros: as `like` says
  std::vector<int> batches{1, 2, 4, 8, 16, 32, 64};
  std::vector<std::string> policies{"exact"};
  std::vector<std::string> tunings{""};  // the defaults
  int rounds = 7;
  int threads = 0;
  base::Numa numa = base::Numa::kAuto;
  std::string isa = "auto";
  std::string compute = "fast";
  base::Pages pages = base::Pages::kHuge;
  bool json = false;
};

void override_if_given(int& target, int value) {
  if (value != 0) target = value;
}

LayerShape wanted_shape(const LayerBenchOptions& options) {
  LayerShape shape = shape_like(options.like);
  override_if_given(shape.experts, options.shape.experts);
  override_if_given(shape.top_k, options.shape.top_k);
  override_if_given(shape.hidden, options.shape.hidden);
  override_if_given(shape.intermediate, options.shape.intermediate);
  return shape;
}

void run_layer_bench(const LayerBenchOptions& options) {
  const LayerShape shape = wanted_shape(options);
  const kernels::Kernels& kernels =
      kernels::select_kernels(options.isa, kernels::parse_compute(options.compute));
  base::ThreadPool pool = base::ThreadPool::for_this_machine(options.threads, options.numa);
  pool.pin_caller();
  std::vector<LayerCase> cases;
  std::vector<std::string> names;
  for (const int rows : options.batches) {
    for (const std::string& text : options.policies) {
      for (const std::string& tuning : options.tunings) {
        cases.push_back({rows, routing::parse_policy(text), kernels::parse_tuning(tuning)});
        names.push_back(routing::to_string(cases.back().policy) + (tuning.empty() ? "" : " " + tuning));
      }
    }
  }
  const nn::Moe layer = make_synthetic_layer(shape, pool, 1, options.pages);
  Ceilings ceilings(kernels, pool);
  auto bar = std::make_unique<ProgressBar>();
  bar->begin("measuring", options.rounds);
  const auto results = bench_layer(layer, shape.hidden, cases, options.rounds, kernels, pool, ceilings,
                                   [&] { bar->advance(); });
  bar.reset();  // clears its line before the table

  const double expert_megabytes = static_cast<double>(expert_bytes(layer)) / 1e6;
  if (options.json) {
    nlohmann::ordered_json report{{"cpu", base::detect_cpu().name},
                                  {"isa", kernels.name},
                                  {"compute", options.compute},
                                  {"threads", pool.size()},
                                  {"bytes_per_second", ceilings.bytes_per_second()},
                                  {"products_per_second", ceilings.products_per_second()},
                                  {"expert_bytes", expert_bytes(layer)}};
    for (std::size_t i = 0; i < results.size(); ++i) {
      const LayerResult& r = results[i];
      report["cases"].push_back({{"rows", cases[i].rows},
                                 {"policy", routing::to_string(cases[i].policy)},
                                 {"tuning", to_string(cases[i].tuning)},
                                 {"microseconds", r.microseconds},
                                 {"experts", r.experts},
                                 {"experts_exact", r.experts_exact},
                                 {"kept_mass", r.kept_mass},
                                 {"bytes", r.bytes},
                                 {"floor_microseconds", r.floor_microseconds},
                                 {"share", r.share},
                                 {"hash", fmt::format("{:016x}", r.hash)}});
    }
    fmt::print("{}\n", report.dump(2));
    return;
  }
  fmt::print("{}, {} threads, {} kernels, {} compute\n", base::detect_cpu().name, pool.size(), kernels.name,
             options.compute);
  fmt::print("ceilings in this run: {:.1f} GB/s read, {:.0f} G int8 products/s\n",
             ceilings.bytes_per_second() / 1e9, ceilings.products_per_second() / 1e9);
  fmt::print("layer: {} experts, top-{}, {} x {}, {} shared, NVFP4, {:.2f} MB an expert\n\n", shape.experts,
             shape.top_k, shape.hidden, shape.intermediate, shape.shared, expert_megabytes);
  fmt::print("{:>5}  {:<24} {:>8} {:>10} {:>8} {:>10} {:>7}  {}\n", "batch", "policy", "experts", "us",
             "GB/s", "floor us", "share", "hash");
  for (std::size_t i = 0; i < results.size(); ++i) {
    const LayerResult& r = results[i];
    fmt::print("{:>5}  {:<24} {:>8.1f} {:>10.1f} {:>8.1f} {:>10.1f} {:>6.0f}%  {:016x}\n", cases[i].rows,
               names[i], r.experts, r.microseconds, r.bytes / r.microseconds / 1e3, r.floor_microseconds,
               100 * r.share, r.hash);
  }
}

}  // namespace

void add_bench_command(CLI::App& app) {
  CLI::App* bench = app.add_subcommand("bench", "Measure speed: of a model's steps, or of one layer");
  bench->require_subcommand(0, 1);
  add_model_bench(*bench);
  CLI::App* layer = bench->add_subcommand(
      "layer", "One MoE layer with random NVFP4 weights, beside the machine's ceilings");
  const auto options = std::make_shared<LayerBenchOptions>();
  layer->add_option("--like", options->like, "Shape of this model's layers")->capture_default_str();
  layer->add_option("--experts", options->shape.experts, "Routed experts (default: as --like)")
      ->check(CLI::Range(1, 4096));
  layer->add_option("--top-k", options->shape.top_k, "Experts of a token (default: as --like)")
      ->check(CLI::Range(1, 64));
  layer->add_option("--hidden", options->shape.hidden, "Width of the residual stream (default: as --like)")
      ->check(CLI::Range(16, 65536));
  layer->add_option("--intermediate", options->shape.intermediate, "Units of an expert (default: as --like)")
      ->check(CLI::Range(16, 65536));
  layer->add_option("-b,--batch", options->batches, "Batch sizes")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096));
  layer->add_option("--policy", options->policies,
                    "Routing policies, such as exact or oea:k0=3; may be repeated");
  layer->add_option("--rounds", options->rounds, "Rounds, interleaving all cases")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  layer->add_option("--threads", options->threads, "Threads (default: usable cores)")
      ->check(CLI::Range(1, 1024));
  add_numa_option(*layer, options->numa);
  layer
      ->add_option("--isa", options->isa,
                   "Instruction set: auto, avx512, avx512_vnni, avx2_vnni, avx2, scalar")
      ->capture_default_str();
  layer
      ->add_option("--compute", options->compute,
                   "Rounding of activations: fast (8 bits), accurate (15 bits)")
      ->capture_default_str();
  layer->add_option("--tuning", options->tunings,
                    "Settings of the layer, such as project_tiles=2,prefetch=0; may be repeated to compare");
  layer->add_option("--pages", options->pages, "Pages of the weights: huge or normal")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, base::Pages>{{"huge", base::Pages::kHuge}, {"normal", base::Pages::kNormal}}))
      ->default_str("huge");
  layer->add_flag("--json", options->json, "Print JSON");
  layer->callback([options] { run_layer_bench(*options); });
}

}  // namespace tagalong::tools
