// Times passes over the experts of a model's MoE layers, with rows and routing made up: the tuner's subject.
//
// The layers take turns, and the experts are drawn near uniformly and shifted each time, so that a pass finds
// its experts as cold as the model's size allows.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/split_mix.h"
#include "base/thread_pool.h"
#include "kernels/kernels.h"
#include "nn/moe.h"
#include "tuner.h"

namespace tagalong::tools {

class LayerTimer : public TuneSubject {
 public:
  // layers: at least one, of one shape; they, kernels and pool must outlive the timer. max_rows: the largest
  // batch that will be asked for.
  LayerTimer(std::span<const nn::Moe* const> layers, const kernels::Kernels& kernels, base::ThreadPool& pool,
             int max_rows);

  void draw(int rows) override;
  double time(const kernels::Tuning& tuning) override;
  double bytes() const override { return bytes_; }

 private:
  std::span<const nn::Moe* const> layers_;
  const kernels::Kernels& kernels_;
  base::ThreadPool& pool_;
  int hidden_;
  std::size_t routed_;  // experts of a layer
  nn::GatedWorkspace gated_;
  std::vector<float> x_;
  std::vector<float> out_;
  base::SplitMix64 random_{1};
  int rows_ = 0;                                          // of the present draw
  std::vector<std::vector<routing::PlanEntry>> entries_;  // [experts] of the present draw
  std::vector<routing::PlanEntry> all_rows_;              // for the shared expert
  std::vector<nn::ExpertGroup> groups_;
  double bytes_ = 0;
  std::size_t turn_ = 0;
};

}  // namespace tagalong::tools
