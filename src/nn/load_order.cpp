#include "nn/load_order.h"

#include <algorithm>

namespace tagalong::nn {

// Of the sorted matrices, a worker gets every workers-th; every other worker in reverse.
void LoadOrder::deal(int matrices, int workers) {
  std::sort(sorted_.begin(), sorted_.begin() + matrices);
  auto place = order_.begin();
  for (int worker = 0; worker < workers; ++worker) {
    const auto run = place;
    for (int i = worker; i < matrices; i += workers) *place++ = sorted_[i].matrix;
    if (worker % 2 == 1) std::reverse(run, place);
  }
}

}  // namespace tagalong::nn
