#include "models/embedding.h"

#include <cstring>

#include "kernels/kernels.h"

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

}  // namespace tagalong::models
