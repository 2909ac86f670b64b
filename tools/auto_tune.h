// The tuner as commands use it: what the machine's file says about a model, measured first where it says
// nothing.
//
// Nothing here fails a command: a file that cannot be used or written is one warning, and the defaults hold.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/arena.h"
#include "base/thread_pool.h"
#include "kernels/kernels.h"
#include "kernels/tuning.h"
#include "models/model.h"
#include "nn/moe.h"
#include "tune_store.h"
#include "tuner.h"

namespace tagalong::tools {

// What a model's entries are filed under: "nvfp4 128x8 2048x768 shared 0 attention 32/4 128/128 threads 2".
// The model has MoE layers.
std::string tune_shape(const models::Model& model, int threads);

class AutoTune {
 public:
  // Reads the machine's file.
  explicit AutoTune(const kernels::Kernels& kernels);

  // Where the weights are to lie; known before the model is loaded.
  base::Pages pages() const {
    return records_.huge_pages.value_or(true) ? base::Pages::kHuge : base::Pages::kNormal;
  }

  // The model's settings; a first start measures for at most ten seconds and keeps the result.
  kernels::TuningTable table(const models::Model& model, base::ThreadPool& pool);

 private:
  const kernels::Kernels& kernels_;
  std::optional<TuneStore> store_;  // empty: no file that may be written
  TuneRecords records_;
};

// Measures the model's MoE layers, of which there is one at least, and attention of its shape, in the pool.
// Writes what it does to the log. found(records) is called, from another thread, as Tuner::Listener::found
// is; what it throws ends the tuning.
void tune_model(const models::Model& model, const kernels::Kernels& kernels, base::ThreadPool& pool,
                TuneEffort effort, const std::function<void(const TuneRecords& records)>& found);

}  // namespace tagalong::tools
