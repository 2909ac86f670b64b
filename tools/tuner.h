// Finds settings that make the MoE layers of a model faster on this machine: measured with the model's own
// weights, in the pool that will run them, each call on experts that no recent call has touched.
//
// Settings are tried one at a time against the best so far, the two taking turns; one is taken over only if
// it was faster by 3 % twice, the second time in more rounds. So noise leaves the defaults as they are. What
// the layers compute is not looked at: no setting changes it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/split_mix.h"
#include "base/thread_pool.h"
#include "kernels/kernels.h"
#include "kernels/tuning.h"
#include "nn/moe.h"
#include "tune_store.h"

namespace tagalong::tools {

enum class TuneEffort : std::uint8_t {
  kQuick,  // few batches and settings, within kQuickSeconds
  kFull,   // all of them, until nothing helps any more
};

inline constexpr double kWinningRatio = 0.97;  // a change must be faster by three hundredths
inline constexpr double kQuickSeconds = 8;     // with what comes before and after, below ten

// What a shape's entries are filed under: "nvfp4 128x8 2048x768 shared 0 threads 2".
std::string tune_shape(const nn::Moe& layer, int threads);

class Tuner {
 public:
  // layers: at least one, of one shape; they, kernels and pool must outlive the tuner. max_rows: the largest
  // batch that will be asked for.
  Tuner(std::span<const nn::Moe* const> layers, const kernels::Kernels& kernels, base::ThreadPool& pool,
        int max_rows);

  // Entries by rows of the batch. stream: bytes per second that the machine reads at most. progress(text) is
  // called now and then.
  std::map<int, TuneEntry> tune(TuneEffort effort, double stream,
                                const std::function<void(const std::string&)>& progress);

  // Microseconds of one pass over `rows` fresh rows. The experts are drawn like those of the call before, one
  // place on: as many, and others.
  double time(const kernels::Tuning& tuning, int rows);

 private:
  using Clock = std::chrono::steady_clock;

  // Of B against A: the median of B / A over pairs of neighbouring calls.
  double ratio(const kernels::Tuning& a, const kernels::Tuning& b, int rows, int pairs);
  // B is faster than A by the margin, and again.
  bool wins(const kernels::Tuning& b, const kernels::Tuning& a, int rows);
  TuneEntry search(int rows, TuneEffort effort, Clock::time_point deadline);
  TuneEntry measure(const kernels::Tuning& tuning, int rows, int pairs);
  void draw(int rows);

  std::span<const nn::Moe* const> layers_;
  const kernels::Kernels& kernels_;
  base::ThreadPool& pool_;
  int hidden_;
  int routed_;  // experts of a layer
  nn::GatedWorkspace gated_;
  std::vector<float> x_;
  std::vector<float> out_;
  base::SplitMix64 random_{1};
  std::vector<std::vector<routing::PlanEntry>> entries_;  // [experts] of the present plan
  std::vector<routing::PlanEntry> all_rows_;              // for the shared expert
  std::vector<nn::ExpertGroup> groups_;
  double bytes_ = 0;  // of weights, of the last pass
  std::size_t turn_ = 0;
};

}  // namespace tagalong::tools
