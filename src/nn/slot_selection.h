// The cache slots that each row of a step attends to, where a model chooses among its positions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tagalong::nn {

// In order of position. Kept between layers, because layers without an indexer of their own reuse the choice
// of the last one that has it.
class SlotSelection {
 public:
  SlotSelection() = default;
  SlotSelection(int max_rows, int top_k)
      : top_k_(top_k), slots_(static_cast<std::size_t>(max_rows) * static_cast<std::size_t>(top_k)) {}

  int top_k() const { return top_k_; }
  std::int32_t* row(int r) {
    return slots_.data() + static_cast<std::size_t>(r) * static_cast<std::size_t>(top_k_);
  }
  const std::int32_t* row(int r) const {
    return slots_.data() + static_cast<std::size_t>(r) * static_cast<std::size_t>(top_k_);
  }

 private:
  int top_k_ = 0;
  std::vector<std::int32_t> slots_;  // [rows, top_k]; used by rows with more than top_k positions
};

}  // namespace tagalong::nn
