#include "nn/gated_experts.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "nn/tile.h"

namespace tagalong::nn {

using kernels::kMaxRows;
using kernels::kRowTile;

namespace {

using TileOut = std::array<std::array<float, kRowTile>, kMaxRows>;

std::array<float*, kMaxRows> pointers(TileOut& out) {
  std::array<float*, kMaxRows> p;
  for (int m = 0; m < kMaxRows; ++m) p[m] = out[m].data();
  return p;
}

// Sixteen intermediate units of one group for all its rows.
void activate_tile(const Context& context, const ExpertGroup& group, int tile, int first_entry,
                   const float* x, int hidden, GatedWorkspace& workspace) {
  const kernels::PackedPair& gate_up = group.weights->gate_up;
  const bool quantized_in = needs_quantized(gate_up.format());
  const bool quantized_out = needs_quantized(group.weights->down.format());
  const int count = static_cast<int>(group.entries.size());
  TileOut gate;
  TileOut up;
  const auto gate_rows = pointers(gate);
  const auto up_rows = pointers(up);
  for (int first = 0; first < count; first += kMaxRows) {
    TileRows rows;
    rows.count = std::min(kMaxRows, count - first);
    for (int m = 0; m < rows.count; ++m) {
      const std::int32_t row = group.entries[first + m].row;
      if (quantized_in) {
        rows.quantized[m] = workspace.input.row(row);
      } else {
        rows.floats[m] = x + static_cast<std::size_t>(row) * hidden;
      }
    }
    multiply_pair_tile(context.kernels, gate_up, tile, rows, gate_rows.data(), up_rows.data());
    for (int m = 0; m < rows.count; ++m) {
      const int entry = first_entry + first + m;
      if (quantized_out) {
        context.kernels.silu_mul(gate[m].data(), up[m].data(), kRowTile, gate[m].data());
        workspace.quantized_activations.write(context.kernels, entry, tile * kRowTile, gate[m].data(),
                                              kRowTile);
        if (tile + 1 == gate_up.tiles()) workspace.quantized_activations.pad(entry, gate_up.outputs());
      } else {
        context.kernels.silu_mul(gate[m].data(), up[m].data(), kRowTile,
                                 workspace.activations.data() +
                                     static_cast<std::size_t>(entry) * workspace.intermediate +
                                     tile * kRowTile);
      }
    }
  }
}

// Adds sixteen output features of one group.
void project_tile(const Context& context, const ExpertGroup& group, int tile, int first_entry, int hidden,
                  const GatedWorkspace& workspace, float* out) {
  const kernels::PackedMatrix& down = group.weights->down;
  const bool quantized = needs_quantized(down.format());
  const int count = static_cast<int>(group.entries.size());
  TileOut sums;
  const auto sum_rows = pointers(sums);
  for (int first = 0; first < count; first += kMaxRows) {
    TileRows rows;
    rows.count = std::min(kMaxRows, count - first);
    for (int m = 0; m < rows.count; ++m) {
      const int entry = first_entry + first + m;
      if (quantized) {
        rows.quantized[m] = workspace.quantized_activations.row(entry);
      } else {
        rows.floats[m] =
            workspace.activations.data() + static_cast<std::size_t>(entry) * workspace.intermediate;
      }
    }
    multiply_tile(context.kernels, down, tile, rows, sum_rows.data());
    for (int m = 0; m < rows.count; ++m) {
      const auto [row, weight] = group.entries[first + m];
      context.kernels.axpy(weight, sums[m].data(), kRowTile,
                           out + static_cast<std::size_t>(row) * hidden + tile * kRowTile);
    }
  }
}

}  // namespace

GatedWorkspace::GatedWorkspace(int max_rows, int hidden, int entries, int intermediate_units, int groups)
    : input(max_rows, hidden),
      activations(static_cast<std::size_t>(entries) * static_cast<std::size_t>(intermediate_units)),
      quantized_activations(entries, intermediate_units),
      first_tasks(static_cast<std::size_t>(groups) + 1),
      first_entries(static_cast<std::size_t>(groups) + 1),
      intermediate(intermediate_units) {}

void apply_gated_experts(const Context& context, std::span<const ExpertGroup> groups, const float* x,
                         int rows, int hidden, GatedWorkspace& workspace, float* out) {
  CHECK(groups.size() < workspace.first_tasks.size(), "{} groups", groups.size());
  const int group_count = static_cast<int>(groups.size());
  bool quantized_in = false;
  for (int g = 0; g < group_count; ++g) {
    workspace.first_tasks[g + 1] = workspace.first_tasks[g] + groups[g].weights->gate_up.tiles();
    workspace.first_entries[g + 1] = workspace.first_entries[g] + static_cast<int>(groups[g].entries.size());
    quantized_in = quantized_in || needs_quantized(groups[g].weights->gate_up.format());
  }
  CHECK(workspace.first_entries[group_count] <= workspace.quantized_activations.rows(), "{} entries",
        workspace.first_entries[group_count]);

  if (quantized_in) {
    context.pool.run(rows, [&](int r, int) {
      workspace.input.write(context.kernels, r, 0, x + static_cast<std::size_t>(r) * hidden, hidden);
      workspace.input.pad(r, hidden);
    });
  }
  context.pool.run(workspace.first_tasks[group_count], [&](int task, int) {
    const auto first = workspace.first_tasks.begin();
    const int g = static_cast<int>(std::upper_bound(first, first + group_count, task) - first) - 1;
    activate_tile(context, groups[g], task - workspace.first_tasks[g], workspace.first_entries[g], x, hidden,
                  workspace);
  });
  context.pool.run(hidden / kRowTile, [&](int tile, int) {
    for (int r = 0; r < rows; ++r) {
      std::fill_n(out + static_cast<std::size_t>(r) * hidden + tile * kRowTile, kRowTile, 0.0F);
    }
    for (int g = 0; g < group_count; ++g) {
      project_tile(context, groups[g], tile, workspace.first_entries[g], hidden, workspace, out);
    }
  });
}

}  // namespace tagalong::nn
