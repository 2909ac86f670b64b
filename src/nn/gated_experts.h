// Gated feed-forward networks over groups of rows: out = sum of weight * down(silu(gate x) * up x).
//
// A dense layer is one group with all rows; a MoE layer is one group per active expert, in ascending id, and
// one for the shared expert, as the route plan lists them. One job of the pool: rows are quantised, then come
// the intermediate units of all groups, then output features. A group's weights are read once for all its
// rows; no scatter buffer, no atomics, and each output is summed in the order of the groups. How the job is
// cut and dealt is the context's tuning, and no result depends on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "kernels/packed_matrix.h"
#include "nn/context.h"
#include "nn/load_order.h"
#include "nn/quantized_rows.h"
#include "nn/tile_deal.h"
#include "routing/route_plan.h"
#include "tensor/weight_view.h"

namespace tagalong::nn {

// One feed-forward network.
struct GatedWeights {
  kernels::PackedPair gate_up;  // [intermediate, hidden] each
  kernels::PackedMatrix down;   // [hidden, intermediate]

  // gate, up: [intermediate, hidden] of one format; down: [hidden, intermediate]. Extents are multiples
  // of 16.
  GatedWeights() = default;
  GatedWeights(const tensor::WeightView& gate, const tensor::WeightView& up,
               const tensor::WeightView& down_view, const kernels::Packing& packing = {})
      : gate_up(gate, up, packing), down(down_view, packing) {}

  std::size_t bytes() const { return gate_up.bytes() + down.bytes(); }
};

struct ExpertGroup {
  const GatedWeights* weights;
  std::span<const routing::PlanEntry> entries;  // batch rows, ascending, each with the factor of the output
};

// Scratch memory, made once for the largest batch.
struct GatedWorkspace {
  GatedWorkspace() = default;
  // entries: the largest sum of group sizes; groups: the largest number of groups.
  GatedWorkspace(int max_rows, int hidden, int entries, int intermediate, int groups);

  QuantizedRows input;                       // [rows, hidden]
  base::AlignedBuffer<float> activations;    // [entries, intermediate]
  QuantizedRows quantized_activations;       // [entries, intermediate]
  LoadOrder order;                           // of the groups, in the first phase
  std::vector<TileDeal::Stretch> stretches;  // [groups, crews] at most
  std::vector<int> first_entries;            // [groups + 1] prefix sums of rows
  int intermediate = 0;
};

// x, out: [rows, hidden]. Rows in no group become zero.
void apply_gated_experts(const Context& context, std::span<const ExpertGroup> groups, const float* x,
                         int rows, int hidden, GatedWorkspace& workspace, float* out);

}  // namespace tagalong::nn
