#include "routing/group_filter.h"

#include <algorithm>

#include "routing/order_code.h"

namespace tagalong::routing {

namespace {

std::uint32_t group_code(GroupScore score, const std::uint32_t* codes, int size) {
  std::uint32_t best = kMaskedCode;
  std::uint32_t second = kMaskedCode;
  for (int i = 0; i < size; ++i) {
    second = std::max(second, std::min(best, codes[i]));
    best = std::max(best, codes[i]);
  }
  return score == GroupScore::kMax ? best : order_code(key_of(best) + key_of(second));
}

}  // namespace

void mask_other_groups(const RouterSpec& spec, std::uint32_t* codes) {
  const int size = spec.experts / spec.groups;
  // Keep the topk_groups best as they come: as in top-k, with the complement of the group id below the code.
  std::uint64_t kept[kMaxGroups];
  int found = 0;
  for (int group = 0; group < spec.groups; ++group) {
    const std::uint64_t candidate =
        (std::uint64_t{group_code(spec.group_score, codes + group * size, size)} << 32) |
        (0xffffffffU - static_cast<std::uint32_t>(group));
    if (found == spec.topk_groups && candidate < kept[found - 1]) continue;
    int at = found < spec.topk_groups ? found++ : found - 1;
    for (; at > 0 && kept[at - 1] < candidate; --at) kept[at] = kept[at - 1];
    kept[at] = candidate;
  }
  bool keep[kMaxGroups] = {};
  for (int i = 0; i < found; ++i) keep[0xffffffffU - static_cast<std::uint32_t>(kept[i])] = true;
  for (int group = 0; group < spec.groups; ++group) {
    if (!keep[group]) std::fill_n(codes + group * size, size, kMaskedCode);
  }
}

}  // namespace tagalong::routing
