#include "nn/gated_experts.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/range.h"
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

// Tasks of a worker in the second phase where idle ones may take some.
constexpr int kStealableTasks = 4;

// The setting, or what it leaves open: a worker's whole share. Every task visits all groups and reads the
// activations of all their rows, of which the weights read since the last task have left none in the second
// cache.
int project_tiles(const Context& context, int hidden) {
  const kernels::Tuning& tuning = context.tuning;
  if (tuning.project_tiles > 0) return tuning.project_tiles;
  const int workers = tuning.project_workers > 0 ? tuning.project_workers : context.pool.size();
  const int share = base::pieces_of(hidden / kRowTile, workers);
  const int tasks = std::max(base::pieces_of(share, kernels::kMaxTaskTiles),
                             tuning.schedule == base::Schedule::kStatic ? 1 : kStealableTasks);
  return base::pieces_of(share, tasks);
}

// One call of apply_gated_experts: what its tasks share.
struct Pass {
  const Context& context;
  std::span<const ExpertGroup> groups;
  const float* x;  // [rows, hidden]
  int rows;
  int hidden;
  GatedWorkspace& workspace;
  float* out;  // [rows, hidden]

  std::array<TileDeal::Stretch, base::kMaxCrews> room = {};
  TileDeal activation{context.pool.crews(), tuning().activate_tiles, workspace.stretches};
  TileDeal projection{context.pool.crews(), project_tiles(context, hidden), room};

  const kernels::Tuning& tuning() const { return context.tuning; }
  int group_count() const { return static_cast<int>(groups.size()); }

  void prepare();
  void quantize(int row) const;
  void activate(int task, int worker) const;
  void project(int task, int worker) const;

 private:
  bool is_last(int task, const TileDeal& deal, int workers, int worker) const {
    return task + 1 == context.pool.share_of(deal.crew_tasks(), workers, worker).end;
  }
  const std::byte* after_activation(int task, int worker) const;
  const std::byte* down_tile(int task, int group) const;
  const std::byte* after_projection(int task, int group, int worker) const;
  void activate_tile(int g, int tile, const std::byte* next) const;
  void project_rows(int g, int first, int count, base::Range tiles, const std::byte* next) const;
};

// Deals tasks, counts entries, and makes sure that they fit the workspace.
void Pass::prepare() {
  CHECK(groups.size() < workspace.first_entries.size(), "{} groups", groups.size());
  for (int g = 0; g < group_count(); ++g) {
    workspace.first_entries[g + 1] = workspace.first_entries[g] + static_cast<int>(groups[g].entries.size());
  }
  const int entries = workspace.first_entries[group_count()];
  CHECK(entries <= workspace.quantized_activations.rows(), "{} entries", entries);
  LoadOrder& order = workspace.order;
  order.arrange(group_count(), context.pool.crews().workers_of(0).size(),
                [this](int g) { return static_cast<int>(groups[g].entries.size()); });
  activation.deal(group_count(), [&](int place) { return groups[order[place]].weights->gate_up.tiles(); });
  projection.deal(1, [this](int) { return hidden / kRowTile; });
}

void Pass::quantize(int row) const {
  workspace.input.write(context.kernels, row, 0, x + static_cast<std::size_t>(row) * hidden, hidden);
  workspace.input.pad(context.kernels, row, hidden);
}

void Pass::activate(int task, int worker) const {
  const auto [place, begin, end] = activation.piece(task);
  const int g = workspace.order[place];
  for (int tile = begin; tile < end; ++tile) {
    activate_tile(
        g, tile, tile + 1 < end ? groups[g].weights->gate_up.tile(tile + 1) : after_activation(task, worker));
  }
}

// The next task's weights, or after a worker's last task what it is going to read behind the barrier.
const std::byte* Pass::after_activation(int task, int worker) const {
  if (task + 1 < activation.tasks() && !is_last(task, activation, tuning().activate_workers, worker)) {
    const TileDeal::Piece next = activation.piece(task + 1);
    return groups[workspace.order[next.matrix]].weights->gate_up.tile(next.begin);
  }
  const auto [first, end] = context.pool.share_of(projection.crew_tasks(), tuning().project_workers, worker);
  return down_tile(first < end ? first : 0, 0);
}

// The first weights of a group that a task of the second phase reads.
const std::byte* Pass::down_tile(int task, int group) const {
  return groups[group].weights->down.tile(projection.piece(task).begin);
}

// What follows a group's last tile in a task: the next group's, the next task's, or nothing new.
const std::byte* Pass::after_projection(int task, int group, int worker) const {
  if (group + 1 < group_count()) return down_tile(task, group + 1);
  const bool last =
      task + 1 == projection.tasks() || is_last(task, projection, tuning().project_workers, worker);
  return down_tile(last ? task : task + 1, 0);
}

// Sixteen intermediate units of one group for all its rows.
void Pass::activate_tile(int g, int tile, const std::byte* next) const {
  const ExpertGroup& group = groups[g];
  const kernels::PackedPair& gate_up = group.weights->gate_up;
  const bool quantized_in = needs_quantized(gate_up.format());
  const bool quantized_out = needs_quantized(group.weights->down.format());
  const int count = static_cast<int>(group.entries.size());
  TileOut gate;
  TileOut up;
  const auto gate_rows = pointers(gate);
  const auto up_rows = pointers(up);
  const int step = rows_of_call(count, tuning().row_tile);
  for (int first = 0; first < count; first += step) {
    TileRows some;
    if (first == 0) some.ahead = {tuning().prefetch, next};
    some.count = std::min(step, count - first);
    for (int m = 0; m < some.count; ++m) {
      const std::int32_t row = group.entries[first + m].row;
      if (quantized_in) {
        some.quantized[m] = workspace.input.row(row);
      } else {
        some.floats[m] = x + static_cast<std::size_t>(row) * hidden;
      }
    }
    multiply_pair_tile(context.kernels, gate_up, tile, some, gate_rows.data(), up_rows.data());
    const int entry = workspace.first_entries[g] + first;
    if (quantized_out) {
      std::array<std::byte*, kMaxRows> out_rows;
      for (int m = 0; m < some.count; ++m) {
        out_rows[m] = workspace.quantized_activations.place(context.kernels, entry + m, tile * kRowTile);
      }
      context.kernels.silu_mul_quantize(gate_rows.data(), up_rows.data(), some.count, out_rows.data());
      continue;
    }
    for (int m = 0; m < some.count; ++m) {
      context.kernels.silu_mul(gate[m].data(), up[m].data(), kRowTile,
                               workspace.activations.data() +
                                   static_cast<std::size_t>(entry + m) * workspace.intermediate +
                                   tile * kRowTile);
    }
  }
  if (!quantized_out || tile + 1 < gate_up.tiles()) return;
  for (int m = 0; m < count; ++m) {
    workspace.quantized_activations.pad(context.kernels, workspace.first_entries[g] + m, gate_up.outputs());
  }
}

void Pass::project(int task, int worker) const {
  const auto [matrix, begin, end] = projection.piece(task);
  for (int r = 0; r < rows; ++r) {
    std::fill_n(out + static_cast<std::size_t>(r) * hidden + begin * kRowTile, (end - begin) * kRowTile,
                0.0F);
  }
  for (int g = 0; g < group_count(); ++g) {
    const std::byte* const next = after_projection(task, g, worker);
    const int count = static_cast<int>(groups[g].entries.size());
    const int step = rows_of_call(count, tuning().row_tile);
    for (int first = 0; first < count; first += step) {
      project_rows(g, first, std::min(step, count - first), {begin, end}, next);
    }
  }
}

// Adds some tiles of output features for rows first.. + count of a group.
void Pass::project_rows(int g, int first, int count, base::Range tiles, const std::byte* next) const {
  const ExpertGroup& group = groups[g];
  const kernels::PackedMatrix& down = group.weights->down;
  const bool quantized = needs_quantized(down.format());
  TileOut sums;
  const auto sum_rows = pointers(sums);
  TileRows some;
  some.count = count;
  std::array<float, kMaxRows> factors;
  std::array<float*, kMaxRows> out_rows;  // at the tile's first feature
  for (int m = 0; m < count; ++m) {
    const auto [row, factor] = group.entries[first + m];
    factors[m] = factor;
    out_rows[m] = out + static_cast<std::size_t>(row) * hidden + tiles.begin * kRowTile;
    const int entry = workspace.first_entries[g] + first + m;
    if (quantized) {
      some.quantized[m] = workspace.quantized_activations.row(entry);
    } else {
      some.floats[m] =
          workspace.activations.data() + static_cast<std::size_t>(entry) * workspace.intermediate;
    }
  }
  for (int tile = tiles.begin; tile < tiles.end; ++tile) {
    if (first == 0) some.ahead = {tuning().prefetch, tile + 1 < tiles.end ? down.tile(tile + 1) : next};
    ask_for_outputs(out_rows.data(), count);
    multiply_tile(context.kernels, down, tile, some, sum_rows.data());
    context.kernels.axpy_rows(factors.data(), sum_rows.data(), count, out_rows.data());
    for (int m = 0; m < count; ++m) out_rows[m] += kRowTile;
  }
}

}  // namespace

GatedWorkspace::GatedWorkspace(int max_rows, int hidden, int entries, int intermediate_units, int groups)
    : input(max_rows, hidden),
      activations(static_cast<std::size_t>(entries) * static_cast<std::size_t>(intermediate_units)),
      quantized_activations(entries, intermediate_units),
      order(groups),
      stretches(static_cast<std::size_t>(groups) * base::kMaxCrews),
      first_entries(static_cast<std::size_t>(groups) + 1),
      intermediate(intermediate_units) {}

void apply_gated_experts(const Context& context, std::span<const ExpertGroup> groups, const float* x,
                         int rows, int hidden, GatedWorkspace& workspace, float* out) {
  Pass pass{context, groups, x, rows, hidden, workspace, out};
  pass.prepare();
  const bool quantized = std::any_of(groups.begin(), groups.end(), [](const ExpertGroup& group) {
    return needs_quantized(group.weights->gate_up.format());
  });
  const auto quantize = [&pass](int row, int) { pass.quantize(row); };
  const auto activate = [&pass](int task, int worker) { pass.activate(task, worker); };
  const auto project = [&pass](int task, int worker) { pass.project(task, worker); };
  const kernels::Tuning& tuning = context.tuning;
  const std::array phases{base::Phase{.tasks = quantized ? rows : 0, .body = quantize},
                          base::Phase{.tasks = pass.activation.tasks(),
                                      .body = activate,
                                      .schedule = tuning.schedule,
                                      .workers = tuning.activate_workers,
                                      .crew_tasks = pass.activation.crew_tasks()},
                          base::Phase{.tasks = pass.projection.tasks(),
                                      .body = project,
                                      .schedule = tuning.schedule,
                                      .workers = tuning.project_workers,
                                      .crew_tasks = pass.projection.crew_tasks()}};
  // A phase costs a barrier: nothing to quantise is none, and one row is sooner done than dealt.
  if (quantized && rows == 1) pass.quantize(0);
  context.pool.run_phases(std::span(phases).subspan(quantized && rows > 1 ? 0 : 1));
}

}  // namespace tagalong::nn
