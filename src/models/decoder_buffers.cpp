#include "models/decoder_buffers.h"

#include <algorithm>

namespace tagalong::models {

namespace {

std::size_t area(int a, int b) { return static_cast<std::size_t>(a) * static_cast<std::size_t>(b); }

}  // namespace

DecoderBuffers::DecoderBuffers(const DecoderConfig& h, const WorkspaceLimits& limits)
    : residual(area(limits.rows, h.hidden)),
      normed(area(limits.rows, h.hidden)),
      block_out(area(limits.rows, h.hidden)),
      head_in(area(limits.logit_rows, h.hidden)),
      head_scratch(limits.logit_rows, h.hidden),
      moe(h.router, limits.rows, limits.policy),
      gated(limits.rows, h.hidden, limits.rows * routing::plan_slots(h.router, limits.policy),
            std::max({h.intermediate, h.moe_intermediate, h.shared_intermediate}), h.router.plan_experts()) {
  for (std::int32_t r = 0; r < limits.rows; ++r) all_rows.push_back({r, 1.0F});
}

}  // namespace tagalong::models
