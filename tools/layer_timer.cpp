#include "layer_timer.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>
#include <utility>

#include "base/check.h"

namespace tagalong::tools {

LayerTimer::LayerTimer(std::span<const nn::Moe* const> layers, const kernels::Kernels& kernels,
                       base::ThreadPool& pool, int max_rows)
    : layers_(layers),
      kernels_(kernels),
      pool_(pool),
      hidden_(layers.front()->experts.front().gate_up.inputs()),
      routed_(static_cast<std::size_t>(layers.front()->spec.experts)),
      entries_(routed_) {
  CHECK(max_rows >= 1, "{} rows", max_rows);
  int intermediate = 0;
  for (const nn::GatedWeights& expert : layers.front()->experts) {
    intermediate = std::max(intermediate, expert.gate_up.outputs());
  }
  const routing::RouterSpec& spec = layers.front()->spec;
  gated_ = nn::GatedWorkspace(max_rows, hidden_, max_rows * (spec.top_k + spec.fused_shared_experts),
                              intermediate, spec.plan_experts());
  x_.resize(static_cast<std::size_t>(max_rows) * static_cast<std::size_t>(hidden_));
  out_.resize(x_.size());
  std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  for (float& v : x_) v = normal(engine);
}

void LayerTimer::draw(int rows) {
  rows_ = rows;
  for (auto& entries : entries_) entries.clear();
  all_rows_.clear();
  const auto k = static_cast<std::size_t>(layers_.front()->spec.top_k);
  std::vector<std::size_t> experts(routed_);
  std::iota(experts.begin(), experts.end(), std::size_t{0});
  for (std::int32_t row = 0; row < rows; ++row) {
    all_rows_.push_back({row, 1.0F});
    for (std::size_t i = 0; i < k; ++i) {
      std::swap(experts[i], experts[i + static_cast<std::size_t>(random_.next()) % (routed_ - i)]);
      entries_[experts[i]].push_back({row, 1.0F / static_cast<float>(k)});
    }
  }
}

double LayerTimer::time(const kernels::Tuning& tuning) {
  ++turn_;
  const nn::Moe& layer = *layers_[turn_ % layers_.size()];
  // Half the experts further each time: far from what the last calls on this layer have left in the caches.
  const std::size_t shift = turn_ / layers_.size() * (routed_ / 2 + 1);
  groups_.clear();
  for (std::size_t e = 0; e < routed_; ++e) {
    const auto& entries = entries_[(e + shift) % routed_];
    if (!entries.empty()) groups_.push_back({&layer.experts[e], entries});
  }
  if (layer.spec.fused_shared_experts > 0) groups_.push_back({&layer.experts.back(), all_rows_});
  bytes_ = 0;
  for (const nn::ExpertGroup& group : groups_) bytes_ += static_cast<double>(group.weights->bytes());
  const auto start = std::chrono::steady_clock::now();
  nn::apply_gated_experts({kernels_, pool_, tuning}, groups_, x_.data(), rows_, hidden_, gated_, out_.data());
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace tagalong::tools
