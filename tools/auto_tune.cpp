#include "auto_tune.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cctype>
#include <future>
#include <optional>
#include <vector>

#include "attention_timer.h"
#include "base/error.h"
#include "ceilings.h"
#include "layer_timer.h"
#include "synthetic_layer.h"

namespace tagalong::tools {

namespace {

constexpr int kStreamSamples = 3;
constexpr std::size_t kPagesBytes = std::size_t{256} << 20;  // of weights on each kind of pages
constexpr int kPagesPairs = 15;

// Whether weights on ordinary pages are faster, clearly and twice. The same weights on either kind.
bool ordinary_pages_win(const nn::Moe& like, const kernels::Kernels& kernels, base::ThreadPool& pool) {
  const int fit = static_cast<int>(kPagesBytes / expert_bytes(like)) + 1;
  const LayerShape shape{.experts = std::clamp(fit, like.spec.top_k, like.spec.experts),
                         .top_k = like.spec.top_k,
                         .hidden = like.experts.front().gate_up.inputs(),
                         .intermediate = like.experts.front().gate_up.outputs()};
  const nn::Moe huge = make_synthetic_layer(shape, pool, 1, base::Pages::kHuge);
  const nn::Moe ordinary = make_synthetic_layer(shape, pool, 1, base::Pages::kNormal);
  const nn::Moe* huge_layers[] = {&huge};
  const nn::Moe* ordinary_layers[] = {&ordinary};
  LayerTimer on_huge(huge_layers, kernels, pool, 1);
  LayerTimer on_ordinary(ordinary_layers, kernels, pool, 1);
  on_huge.draw(1);
  on_ordinary.draw(1);
  const auto faster = [&] {
    std::vector<double> ratios;
    for (int i = 0; i < kPagesPairs; ++i) {
      const double time = on_huge.time({});
      ratios.push_back(on_ordinary.time({}) / time);
    }
    return median(ratios) < kWinningRatio;
  };
  return faster() && faster();
}

}  // namespace

void tune_model(const models::Model& model, const kernels::Kernels& kernels, base::ThreadPool& pool,
                TuneEffort effort, const std::function<void(const TuneRecords& records)>& found) {
  const auto measure = [&] {
    const std::vector<const nn::Moe*> layers = model.moe_layers();
    pool.pin_caller();
    Ceilings ceilings(kernels, pool);
    const auto stream = [&ceilings] {
      for (int i = 0; i < kStreamSamples; ++i) ceilings.sample_bandwidth();
      return ceilings.bytes_per_second();
    };
    LayerTimer timer(layers, kernels, pool, Tuner::most_rows(effort));
    // One thread has nothing to share.
    std::optional<AttentionTimer> attention;
    if (pool.size() > 1) {
      attention.emplace(model.info().attention, model.info().most_attended, kernels, pool,
                        Tuner::most_attention_rows());
    }
    TuneRecords records;
    if (effort == TuneEffort::kFull) {
      records.huge_pages = !ordinary_pages_win(*layers.front(), kernels, pool);
    }
    Tuner tuner(timer, attention ? &*attention : nullptr, pool.size());
    tuner.tune(effort, stream,
               {.progress = [](const std::string& text) { spdlog::info("{}", text); },
                .found =
                    [&](const std::map<int, TuneEntry>& entries) {
                      records.shapes[tune_shape(model, pool.size())] = entries;
                      found(records);
                    }});
  };
  // On a thread of its own, which is bound to its core as the engine's will be: threads that this one starts
  // later must not inherit that.
  std::async(std::launch::async, measure).get();
}

std::string tune_shape(const models::Model& model, int threads) {
  const nn::Moe& layer = *model.moe_layers().front();
  const nn::AttentionShape& attention = model.info().attention;
  const nn::GatedWeights& expert = layer.experts.front();
  std::string format(tensor::format_name(expert.gate_up.format()));
  for (char& c : format) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const int shared = layer.spec.fused_shared_experts > 0 ? layer.experts.back().gate_up.outputs() : 0;
  return fmt::format("{} {}x{} {}x{} shared {} attention {}/{} {}/{} threads {}", format, layer.spec.experts,
                     layer.spec.top_k, expert.gate_up.inputs(), expert.gate_up.outputs(), shared,
                     attention.heads, attention.kv_heads, attention.key_widths[0] + attention.key_widths[1],
                     attention.dim, threads);
}

AutoTune::AutoTune(const kernels::Kernels& kernels) : kernels_(kernels) {
  const TuneMachine machine = tune_machine(kernels);
  const auto path = TuneStore::default_path(machine);
  if (!path) {
    spdlog::warn(
        "tuning: neither XDG_CACHE_HOME nor HOME names a folder: what is measured will be forgotten");
    return;
  }
  store_.emplace(*path, machine);
  try {
    records_ = store_->read().value_or(TuneRecords{});
  } catch (const std::exception& error) {
    spdlog::warn("tuning: {}; it is left alone", error.what());
    store_.reset();
  }
}

kernels::TuningTable AutoTune::table(const models::Model& model, base::ThreadPool& pool) {
  if (model.moe_layers().empty()) return {};
  const std::string shape = tune_shape(model, pool.size());
  if (!records_.shapes.contains(shape)) {
    spdlog::info(
        "first start of this shape of model here: measuring for up to ten seconds (--tune off skips it)");
    tune_model(model, kernels_, pool, TuneEffort::kQuick,
               [&](const TuneRecords& found) { records_.shapes[shape] = found.shapes.at(shape); });
    if (store_) {
      try {
        store_->merge(records_);
      } catch (const std::exception& error) {
        spdlog::warn("tuning: {}; it will be measured again at the next start", error.what());
      }
    }
  }
  return tuning_table(records_.shapes.at(shape));
}

}  // namespace tagalong::tools
