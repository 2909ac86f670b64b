// Takes a model's weights out of a checkpoint, packed as the kernels read them, and lets go of the file's own
// copy of what it has packed.
//
// Used by the thread that owns the pool, in the order of the model. All threads of the pool pack: one after
// another the tiles of a large matrix, or experts side by side. Whatever their number, what is thrown is what
// is wrong first in the model's order, as InputError naming the tensor.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "kernels/packing.h"
#include "models/embedding.h"
#include "models/model.h"
#include "nn/gated_experts.h"
#include "nn/linear.h"

namespace tagalong::models {

class WeightLoader {
 public:
  // `file` and the options' pool must outlive the loader.
  WeightLoader(const checkpoint::Checkpoint& file, const LoadOptions& options);

  // A small tensor by its full name, ".weight" or ".bias" included.
  std::vector<float> vector(const std::string& name, int length) const;
  // The weight NAME as it lies in the file, for what keeps it in a way of its own.
  tensor::WeightView weight(const std::string& name, int outputs, int inputs) const;
  // How such a weight is packed: by all threads.
  const kernels::Packing& packing() const { return dense_; }

  Embedding embedding(const std::string& name, int vocab, int hidden) const;
  nn::Linear linear(const std::string& name, int outputs, int inputs) const;
  // A quantised router is refused, since it would route by rounded scores.
  nn::Linear router(const std::string& name, int experts, int hidden) const;
  // The network NAME.gate_proj, NAME.up_proj, NAME.down_proj.
  nn::GatedWeights gated(const std::string& name, int hidden, int intermediate) const;
  // The networks NAME.0, NAME.1 and so on.
  std::vector<nn::GatedWeights> experts(const std::string& name, int count, int hidden,
                                        int intermediate) const;

  // Lets go of whatever of the file is in memory.
  void release() const { file_.release(); }

 private:
  nn::GatedWeights network(const std::string& name, int hidden, int intermediate,
                           const kernels::Packing& packing) const;

  const checkpoint::Checkpoint& file_;
  base::ThreadPool& pool_;
  kernels::Packing dense_;     // by all threads, always on huge pages
  kernels::Packing networks_;  // by all threads: of a network that stands alone
  kernels::Packing experts_;   // by one thread each: they are tasks of the pool, which must not use it
};

// Calls load(e) for every expert from the pool's threads; the first error in order of e is thrown afterwards.
std::vector<nn::GatedWeights> load_experts(base::ThreadPool& pool, int experts,
                                           const std::function<nn::GatedWeights(int)>& load);

}  // namespace tagalong::models
