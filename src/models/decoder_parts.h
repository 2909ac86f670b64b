// Small pieces that every decoder-only model has: embedding, row-wise norm and addition, parallel loading.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/aligned_buffer.h"
#include "models/model.h"
#include "nn/context.h"
#include "nn/gated_experts.h"
#include "tensor/weight_view.h"

namespace tagalong::models {

// Token embeddings, kept as they are in the checkpoint.
class Embedding {
 public:
  Embedding() = default;
  // weight: [vocab, hidden]; its bytes are copied.
  explicit Embedding(const tensor::WeightView& weight);

  // out: [ids, hidden].
  void lookup(std::span<const std::int32_t> ids, float* out) const;

 private:
  tensor::WeightView view_;  // of the two buffers
  base::AlignedBuffer<std::byte> data_;
  base::AlignedBuffer<std::byte> scales_;
};

// out[r] = RMSNorm(x[r]) for `rows` rows of weight.size() values.
void norm_rows(const nn::Context& context, const float* x, std::span<const float> weight, float eps, int rows,
               float* out);

// sum[r] += x[r].
void add_rows(const nn::Context& context, const float* x, int rows, int width, float* sum);

void observe(const StepContext& step, std::string_view point, std::span<const float> values);

// Calls load(e) for every expert from the pool's threads; the first error in order of e is thrown afterwards.
std::vector<nn::GatedWeights> load_experts(base::ThreadPool& pool, int experts,
                                           const std::function<nn::GatedWeights(int)>& load);

}  // namespace tagalong::models
