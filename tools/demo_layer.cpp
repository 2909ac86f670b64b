#include "demo_layer.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "ceilings.h"
#include "layer_bench.h"
#include "line_fit.h"
#include "progress_bar.h"
#include "synthetic_layer.h"

namespace tagalong::tools {

namespace {

constexpr int kRows = 16;
constexpr int kRounds = 7;
constexpr std::string_view kShape = "qwen3-30b-a3b";
constexpr double kClearFit = 0.8;  // share of the variance explained; below it the run shows nothing

}  // namespace

void show_large_layer(const kernels::Kernels& kernels, base::ThreadPool& pool) {
  const LayerShape shape = shape_like(kShape);
  std::vector<LayerCase> cases{{kRows, routing::parse_policy("exact")}};
  for (int k0 = 7; k0 >= 3; --k0)
    cases.push_back({kRows, routing::parse_policy(fmt::format("oea:k0={}", k0))});

  const nn::Moe layer = make_synthetic_layer(shape, pool, 1);
  Ceilings ceilings(kernels, pool);
  std::vector<LayerResult> results;
  {
    ProgressBar progress;
    progress.begin("one large layer", kRounds);
    results = bench_layer(layer, shape.hidden, cases, kRounds, kernels, pool, ceilings,
                          [&] { progress.advance(); });
  }

  fmt::print(
      "\nOne MoE layer of {}'s shape: {} experts of {:.2f} MB ({:.0f} MB, more than any cache), random "
      "NVFP4\n"
      "weights, near-uniform routing, {} rows; {:.1f} GB/s is what this machine reads in the same run.\n\n",
      kShape, shape.experts, static_cast<double>(expert_bytes(layer)) / 1e6,
      static_cast<double>(expert_bytes(layer)) * shape.experts / 1e6, kRows,
      ceilings.bytes_per_second() / 1e9);
  fmt::print("{:<12} {:>14} {:>10} {:>12} {:>8} {:>11}\n", "routing", "experts/layer", "us/layer", "of exact",
             "GB/s", "kept mass");
  std::vector<double> experts;
  std::vector<double> times;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const LayerResult& r = results[i];
    fmt::print("{:<12} {:>14.1f} {:>10.0f} {:>12.2f} {:>8.1f} {:>10.1f}%\n",
               routing::to_string(cases[i].policy), r.experts, r.microseconds,
               r.microseconds / results[0].microseconds, r.bytes / r.microseconds / 1e3, 100 * r.kept_mass);
    experts.push_back(r.experts);
    times.push_back(r.microseconds);
  }
  const LineFit fit = fit_line(experts, times);
  fmt::print(
      "\nA straight line through these: {:.0f} us and {:.1f} us for each distinct expert (R^2 {:.3f}).\n{}\n",
      fit.intercept, fit.slope, fit.r_squared,
      fit.r_squared >= kClearFit && fit.slope > 0
          ? "Here the weights stream from memory, and fewer bytes take less time."
          : "Other work on this machine hides the line: run it again when it is quiet.");
}

}  // namespace tagalong::tools
