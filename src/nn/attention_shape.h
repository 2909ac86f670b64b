// The sizes of a layer's attention, whatever its kind.
#pragma once

#include <array>

namespace tagalong::nn {

struct AttentionShape {
  int heads = 0;
  int kv_heads = 0;                 // divides heads: so many consecutive heads share their keys and values
  std::array<int, 2> key_widths{};  // of one or two planes, multiples of 16; a score sums over both
  int dim = 0;                      // of a value, a multiple of 16
  float scale = 0;                  // of the scores

  int group() const { return heads / kv_heads; }
};

}  // namespace tagalong::nn
