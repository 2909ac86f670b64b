// The table of token embeddings, kept as it is in the checkpoint. Immutable after construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/aligned_buffer.h"
#include "base/thread_pool.h"
#include "kernels/packing.h"
#include "tensor/weight_view.h"

namespace tagalong::models {

class Embedding {
 public:
  Embedding() = default;
  // weight: [vocab, hidden]; its bytes are copied.
  Embedding(const tensor::WeightView& weight, const kernels::Packing& packing);

  std::size_t bytes() const { return data_.size() + scales_.size(); }

  // out: [ids, hidden].
  void lookup(base::ThreadPool& pool, std::span<const std::int32_t> ids, float* out) const;

 private:
  tensor::WeightView view_;  // of the two buffers
  base::AlignedBuffer<std::byte> data_;
  base::AlignedBuffer<std::byte> scales_;
};

}  // namespace tagalong::models
