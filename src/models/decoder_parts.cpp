#include "models/decoder_parts.h"

#include <cstring>
#include <exception>

namespace tagalong::models {

Embedding::Embedding(const tensor::WeightView& weight) : view_(weight) {
  const bool grouped = weight.scales.block != nullptr;
  const auto elements = static_cast<std::size_t>(weight.shape.elements());
  const std::size_t scale_bytes = grouped ? elements / kernels::kGroup : 0;
  data_ = base::AlignedBuffer<std::byte>(tensor::format_bytes(weight.format, weight.shape.elements()) -
                                         scale_bytes);
  std::memcpy(data_.data(), weight.data, data_.size());
  view_.data = data_.data();
  if (grouped) {
    scales_ = base::AlignedBuffer<std::byte>(scale_bytes);
    std::memcpy(scales_.data(), weight.scales.block, scale_bytes);
    view_.scales.block = scales_.data();
  }
}

void Embedding::lookup(std::span<const std::int32_t> ids, float* out) const {
  const std::int64_t hidden = view_.shape[1];
  for (const std::int32_t id : ids) {
    for (std::int64_t i = 0; i < hidden; ++i) *out++ = tensor::weight_at(view_, id, i);
  }
}

void norm_rows(const nn::Context& context, const float* x, std::span<const float> weight, float eps, int rows,
               float* out) {
  const int width = static_cast<int>(weight.size());
  context.pool.run(rows, [&](int r, int) {
    const std::size_t at = static_cast<std::size_t>(r) * weight.size();
    context.kernels.rms_norm(x + at, weight.data(), eps, width, out + at);
  });
}

void add_rows(const nn::Context& context, const float* x, int rows, int width, float* sum) {
  context.pool.run(rows, [&](int r, int) {
    const std::size_t at = static_cast<std::size_t>(r) * static_cast<std::size_t>(width);
    context.kernels.axpy(1.0F, x + at, width, sum + at);
  });
}

void observe(const StepContext& step, std::string_view point, std::span<const float> values) {
  if (step.observer != nullptr) (*step.observer)(point, values);
}

std::vector<nn::GatedWeights> load_experts(base::ThreadPool& pool, int experts,
                                           const std::function<nn::GatedWeights(int)>& load) {
  std::vector<nn::GatedWeights> weights(static_cast<std::size_t>(experts));
  std::vector<std::exception_ptr> errors(weights.size());
  pool.run(experts, [&](int e, int) {
    try {
      weights[e] = load(e);
    } catch (...) {
      errors[e] = std::current_exception();  // a task must not throw
    }
  });
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return weights;
}

}  // namespace tagalong::models
