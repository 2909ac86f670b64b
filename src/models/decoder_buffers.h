// The buffers of a step that do not depend on the attention, made once for the largest batch. Rows are the
// batch's.
#pragma once

#include <vector>

#include "base/aligned_buffer.h"
#include "models/decoder_config.h"
#include "models/model.h"
#include "nn/gated_experts.h"
#include "nn/moe.h"
#include "nn/quantized_rows.h"
#include "routing/route_plan.h"

namespace tagalong::models {

struct DecoderBuffers {
  // The limits' policy must fit the routers.
  DecoderBuffers(const DecoderConfig& config, const WorkspaceLimits& limits);

  base::AlignedBuffer<float> residual;   // [rows, hidden]
  base::AlignedBuffer<float> normed;     // [rows, hidden]
  base::AlignedBuffer<float> block_out;  // [rows, hidden]
  base::AlignedBuffer<float> head_in;    // [logit rows, hidden]
  nn::QuantizedRows head_scratch;
  nn::MoeWorkspace moe;
  nn::GatedWorkspace gated;
  std::vector<routing::PlanEntry> all_rows;  // [rows] every row with weight 1: the plan of a dense layer
};

}  // namespace tagalong::models
