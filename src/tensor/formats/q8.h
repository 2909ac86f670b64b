// Q8: int8 values in groups of 32 along the input dimension, each group with a binary16 scale (f16.h).
//
// w = value * scale. Source: the numbers of GGUF's Q8_0, with values and scales apart.
#pragma once

namespace tagalong::tensor {

inline constexpr int kQ8Group = 32;

}  // namespace tagalong::tensor
