// Rotary position embedding (Su et al., arXiv 2104.09864).
//
// Angles are computed in fp32 (position times inverse frequency), as the reference implementations do, and
// their cosines in double; once per step for the rows of a batch, not per layer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tagalong::nn {

enum class RopeStyle : std::uint8_t {
  kInterleaved,  // pairs (2j, 2j + 1)
  kHalfSplit,    // pairs (j, j + dims / 2)
};

// Cosines and sines of some rows.
class RopeAngles {
 public:
  RopeAngles() = default;
  // dims: even number of rotated values.
  RopeAngles(int dims, double theta, int max_rows);

  // Fills rows 0.. with the angles of these positions. At most max_rows.
  void set(std::span<const std::int32_t> positions);

  int dims() const { return 2 * static_cast<int>(inverse_frequencies_.size()); }
  // Rotates x[0..dims) by the angles of `row`.
  void rotate(int row, RopeStyle style, float* x) const;

 private:
  std::vector<float> inverse_frequencies_;  // [dims / 2]
  std::vector<float> cosines_;              // [rows, dims / 2]
  std::vector<float> sines_;                // [rows, dims / 2]
};

}  // namespace tagalong::nn
