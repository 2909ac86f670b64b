#include "models/embedding.h"

#include <algorithm>
#include <cstring>

#include "kernels/kernels.h"

namespace tagalong::models {

namespace {

base::AlignedBuffer<std::byte> copy(const std::byte* from, std::size_t size,
                                    const kernels::Packing& packing) {
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  base::AlignedBuffer<std::byte> to(size, packing.arena);
  packing.run(static_cast<int>((size + kPiece - 1) / kPiece), [&](int piece, int) {
    const std::size_t begin = static_cast<std::size_t>(piece) * kPiece;
    std::memcpy(to.data() + begin, from + begin, std::min(kPiece, size - begin));
  });
  return to;
}

}  // namespace

Embedding::Embedding(const tensor::WeightView& weight, const kernels::Packing& packing) : view_(weight) {
  const bool grouped = weight.scales.block != nullptr;
  const auto elements = static_cast<std::size_t>(weight.shape.elements());
  const std::size_t scale_bytes = grouped ? elements / kernels::kGroup : 0;
  const std::size_t all_bytes = tensor::format_bytes(weight.format, weight.shape.elements());
  data_ = copy(weight.data, all_bytes - scale_bytes, packing);
  view_.data = data_.data();
  if (grouped) {
    scales_ = copy(weight.scales.block, scale_bytes, packing);
    view_.scales.block = scales_.data();
  }
}

void Embedding::lookup(base::ThreadPool& pool, std::span<const std::int32_t> ids, float* out) const {
  const auto hidden = static_cast<std::size_t>(view_.shape[1]);
  pool.run(static_cast<int>(ids.size()), [&](int r, int) {
    tensor::read_row(view_, ids[r], {out + static_cast<std::size_t>(r) * hidden, hidden});
  });
}

}  // namespace tagalong::models
