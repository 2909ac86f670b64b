// The k best of many scored positions. A pure function: no state, no memory but a page of its stack.
#pragma once

#include <cstdint>

namespace tagalong::nn {

// Writes the slots of the k greatest of scores[0..count) to out [k], in order of position; k in [1, count].
// Ties go to the earlier position, NaN ranks lowest.
void choose_slots(const float* scores, int count, int k, const std::int32_t* slots, std::int32_t* out);

}  // namespace tagalong::nn
