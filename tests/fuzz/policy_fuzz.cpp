// Any bytes as a policy string: refused with an InputError, or a policy that its own string gives back and
// that routes, wherever it fits the layer.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "routing/route.h"

using namespace tagalong::routing;
using tagalong::base::InputError;

namespace {

RouterSpec layer(int experts, int top_k, int groups) {
  RouterSpec spec{.scoring = Scoring::kSigmoid, .experts = experts, .top_k = top_k, .groups = groups};
  spec.topk_groups = (groups + 1) / 2;
  if (groups > 1) spec.group_score = GroupScore::kMax;
  validate(spec, "layer");
  return spec;
}

void route_rows(const RouterSpec& spec, const RoutingPolicy& policy) {
  constexpr int kRows = 5;
  std::vector<float> logits;
  for (int i = 0; i < kRows * spec.experts; ++i) logits.push_back(static_cast<float>(i * 37 % 61) / 16 - 2);
  std::vector<RowRole> roles(kRows, RowRole::kDecode);
  roles[1] = RowRole::kPrefill;
  roles[3] = RowRole::kPadding;
  RouteScratch scratch;
  RoutePlan plan;
  scratch.reserve(kRows, spec, policy);
  plan.reserve(kRows, spec, policy);
  const Placement placement = contiguous_placement(spec.experts, 3);
  route({.logits = logits, .roles = roles, .layer = 1, .placement = &placement}, spec, policy, scratch, plan);
  for (int row = 0; row < kRows; ++row) {
    for (const std::int32_t id : plan.ids_of(row)) CHECK(id >= 0 && id < spec.experts, "{}", id);
    for (const float weight : plan.weights_of(row)) CHECK(std::isfinite(weight), "{}", weight);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const RoutingPolicy policy = parse_policy({reinterpret_cast<const char*>(data), size});
    CHECK(parse_policy(to_string(policy)) == policy, "{}", to_string(policy));
    for (const RouterSpec& spec : {layer(1, 1, 1), layer(40, 6, 4), layer(130, 8, 1)}) {
      try {
        validate(policy, spec, "layer");
        route_rows(spec, policy);
      } catch (const InputError&) {
      }
    }
  } catch (const InputError&) {
  }
  return 0;
}
