#include "nn/parted_attention.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "base/check.h"
#include "base/range.h"

namespace tagalong::nn {

using kernels::AttentionSums;
using kernels::kAttentionPart;
using kernels::kAttentionRows;

namespace {

// A panel of keys is made for at least so many heads, or making it would cost as much as using it; a multiple
// of what the kernel takes at once.
constexpr int kLeastHeads = 8;
constexpr int kHeadStep = 4;

// Parts of a worker that wait to be folded, each of one row and all heads of a group.
constexpr int kPartsPerWorker = 8;

// Values that a task folds at least: enough to be worth its dealing.
constexpr int kFoldValues = 4096;

std::size_t area(std::size_t a, int b) { return a * static_cast<std::size_t>(b); }

// Floats of one row's sums.
std::size_t sums_width(int heads, int dim) { return area(area(1, heads), dim + 2); }

AttentionSums sums_at(float* at, int heads) {
  return {.largest = at, .sum = at + heads, .out = at + 2 * heads};
}

// The same sums from a later head on.
AttentionSums from_head(const AttentionSums& sums, int head, int dim) {
  return {.largest = sums.largest + head, .sum = sums.sum + head, .out = sums.out + area(area(1, head), dim)};
}

}  // namespace

AttentionWorkspace::AttentionWorkspace(const AttentionShape& shape, int max_rows, int max_context,
                                       int worker_count)
    : runs_(static_cast<std::size_t>(max_rows)),
      first_parts_(static_cast<std::size_t>(max_rows) + 1),
      largest_(area(max_rows, shape.heads)),
      sum_(area(max_rows, shape.heads)) {
  CHECK(shape.heads % shape.kv_heads == 0, "{} heads, {} of keys", shape.heads, shape.kv_heads);
  const std::size_t width = sums_width(shape.group(), shape.dim);
  if (max_context > kAttentionPart && worker_count > 1) {
    parts_ =
        base::AlignedBuffer<float>(area(width, std::max(kAttentionRows, kPartsPerWorker * worker_count)));
  }
  for (int w = 0; w < worker_count; ++w) {
    workers_.push_back({.slots = std::vector<std::int32_t>(kAttentionPart),
                        .scratch = base::AlignedBuffer<float>(kernels::attention_scratch(shape.group())),
                        .part = base::AlignedBuffer<float>(area(width, kAttentionRows))});
  }
}

// One call of attend(): what its tasks share.
class PartedAttention {
 public:
  PartedAttention(const Context& context, const AttentionShape& shape, const AttentionCall& call,
                  AttentionWorkspace& workspace)
      : context_(context), shape_(shape), call_(call), workspace_(workspace) {}

  void run();

 private:
  // Heads of one key/value head, for a run of rows.
  struct Unit {
    RowRun run;
    int head;  // of all heads, the first
    int heads;
  };

  int units() const { return runs_ * shape_.kv_heads * pieces_; }
  Unit unit(int index) const;

  bool selects(int row) const {
    return call_.selection != nullptr && call_.rows.positions[row] + 1 > call_.selection->top_k();
  }
  int positions(int row) const {
    return selects(row) ? call_.selection->top_k() : call_.rows.positions[row] + 1;
  }
  int parts(const RowRun& run) const;

  // What a row's heads have come to.
  AttentionSums total(int row, int head) const;
  void compute(const Unit& unit, int part, int worker, float* to) const;
  void fold(const Unit& unit, int part, float* from, int head, int heads) const;
  void finish(const Unit& unit, int head, int heads) const;

  bool cut();
  void run_whole() const;
  void run_parts() const;

  const Context& context_;
  const AttentionShape& shape_;
  const AttentionCall& call_;
  AttentionWorkspace& workspace_;
  int runs_ = 0;
  int heads_ = 0;   // of a unit
  int pieces_ = 1;  // of the heads that share their keys
};

PartedAttention::Unit PartedAttention::unit(int index) const {
  const int piece = index / runs_;
  const int first = piece % pieces_ * heads_;
  return {.run = workspace_.runs_[static_cast<std::size_t>(index % runs_)],
          .head = piece / pieces_ * shape_.group() + first,
          .heads = std::min(heads_, shape_.group() - first)};
}

int PartedAttention::parts(const RowRun& run) const {
  int most = 0;
  for (int m = 0; m < run.count; ++m) most = std::max(most, positions(run.first + m));
  return base::pieces_of(most, kAttentionPart);
}

AttentionSums PartedAttention::total(int row, int head) const {
  const std::size_t at = area(row, shape_.heads) + static_cast<std::size_t>(head);
  return {.largest = workspace_.largest_.data() + at,
          .sum = workspace_.sum_.data() + at,
          .out = call_.out + area(at, shape_.dim)};
}

// One part for those rows of the unit that see it. The first part's sums become the rows' totals, those of
// another go to `to`, for the m-th row of the run at m * the width of a row's sums.
void PartedAttention::compute(const Unit& unit, int part, int worker_index, float* to) const {
  AttentionWorkspace::Worker& worker = workspace_.workers_[static_cast<std::size_t>(worker_index)];
  const int begin = part * kAttentionPart;
  const int kv_head = unit.head / shape_.group();
  const std::size_t bytes = cache::kv_bytes(call_.kv.type());
  kernels::AttentionPart p{};
  int longest = 0;
  for (int m = 0; m < unit.run.count; ++m) {
    const int row = unit.run.first + m;
    const int count = std::min(positions(row) - begin, kAttentionPart);
    if (count <= 0) continue;
    for (std::size_t i = 0; i < shape_.key_widths.size(); ++i) {
      p.keys[i].queries[p.rows] =
          call_.queries[i] +
          area(area(row, shape_.heads) + static_cast<std::size_t>(unit.head), shape_.key_widths[i]);
    }
    p.counts[p.rows] = count;
    p.sums[p.rows] = part == 0 ? total(row, unit.head)
                               : sums_at(to + area(sums_width(unit.heads, shape_.dim), m), unit.heads);
    ++p.rows;
    longest = std::max(longest, count);
  }
  for (std::size_t i = 0; i < shape_.key_widths.size(); ++i) {
    const int width = shape_.key_widths[i];
    if (width == 0) continue;
    p.keys[i].data = call_.kv.plane(call_.key_planes[i] + kv_head);
    p.keys[i].stride = area(bytes, width);
    p.keys[i].width = width;
  }
  if (selects(unit.run.first)) {
    p.slots = call_.selection->row(unit.run.first) + begin;
  } else {
    for (int t = 0; t < longest; ++t) worker.slots[t] = call_.rows.table(unit.run.first).slot(begin + t);
    p.slots = worker.slots.data();
  }
  p.heads = unit.heads;
  p.dim = shape_.dim;
  p.values = call_.kv.plane(call_.value_plane + kv_head);
  p.stride = area(bytes, shape_.dim);
  p.format = cache_format(call_.kv);
  p.scale = shape_.scale;
  p.scratch = worker.scratch.data();
  context_.kernels.attention_part(p);
}

// Adds what compute() left at `from` for some of the unit's heads.
void PartedAttention::fold(const Unit& unit, int part, float* from, int head, int heads) const {
  const std::size_t width = sums_width(unit.heads, shape_.dim);
  for (int m = 0; m < unit.run.count; ++m) {
    const int row = unit.run.first + m;
    if (positions(row) <= part * kAttentionPart) continue;
    context_.kernels.fold_attention(
        {.total = total(row, unit.head + head),
         .part = from_head(sums_at(from + area(width, m), unit.heads), head, shape_.dim),
         .heads = heads,
         .dim = shape_.dim});
  }
}

// Divides by the sum of the weights.
void PartedAttention::finish(const Unit& unit, int head, int heads) const {
  for (int m = 0; m < unit.run.count; ++m) {
    context_.kernels.finish_attention(total(unit.run.first + m, unit.head + head), heads, shape_.dim);
  }
}

// Chooses tasks: whether each part is one, and how many heads they take.
bool PartedAttention::cut() {
  const int threads = context_.pool.size();
  heads_ = shape_.group();
  if (threads == 1) return false;
  const int wanted = context_.tuning.attention_tasks * threads;
  int all_parts = 0;
  std::int64_t work = 0;  // rows times parts
  int most = 0;
  for (int i = 0; i < runs_; ++i) {
    const RowRun& run = workspace_.runs_[static_cast<std::size_t>(i)];
    const int count = parts(run);
    all_parts += count;
    work += count * run.count;
    most = std::max(most, count * run.count);
  }
  // Whole runs do if the largest is no more than what one of the wanted tasks should be.
  const bool in_parts = all_parts > runs_ && std::int64_t{most} * wanted > work * shape_.kv_heads;
  const int tasks = shape_.kv_heads * (in_parts ? all_parts : runs_);
  const int pieces = std::clamp(wanted / tasks, 1, base::pieces_of(heads_, kLeastHeads));
  heads_ = std::min(shape_.group(), base::pieces_of(base::pieces_of(heads_, pieces), kHeadStep) * kHeadStep);
  pieces_ = base::pieces_of(shape_.group(), heads_);
  return in_parts;
}

void PartedAttention::run_whole() const {
  context_.pool.run(units(), [&](int task, int worker) {
    const Unit u = unit(task);
    float* sums = workspace_.workers_[static_cast<std::size_t>(worker)].part.data();
    const int count = parts(u.run);
    for (int part = 0; part < count; ++part) {
      compute(u, part, worker, sums);
      if (part > 0) fold(u, part, sums, 0, u.heads);
    }
    finish(u, 0, u.heads);
  });
}

// Every part of every unit is a task. As many as there is memory for are computed, then folded, before the
// next.
void PartedAttention::run_parts() const {
  const std::span<int> first_parts(workspace_.first_parts_);
  int most_rows = 0;
  for (int i = 0; i < runs_; ++i) {
    const RowRun& run = workspace_.runs_[static_cast<std::size_t>(i)];
    first_parts[i + 1] = first_parts[i] + parts(run);
    most_rows = std::max(most_rows, run.count);
  }
  const int parts_of_runs = first_parts[runs_];
  const int tasks = parts_of_runs * shape_.kv_heads * pieces_;
  // A unit's first task, and the unit of a task.
  const auto first_task = [&](int unit) { return unit / runs_ * parts_of_runs + first_parts[unit % runs_]; };
  const auto unit_of = [&](int task) {
    const auto firsts = first_parts.first(static_cast<std::size_t>(runs_));
    const auto next = std::upper_bound(firsts.begin(), firsts.end(), task % parts_of_runs);
    return task / parts_of_runs * runs_ + static_cast<int>(next - firsts.begin()) - 1;
  };

  const std::size_t slot = area(sums_width(heads_, shape_.dim), most_rows);
  const int slots = static_cast<int>(workspace_.parts_.size() / slot);
  const int fold_heads = std::max(1, kFoldValues / shape_.dim);
  const int folds = base::pieces_of(heads_, fold_heads);
  for (int first = 0; first < tasks; first += slots) {
    const int end = std::min(tasks, first + slots);
    const auto sums_of = [&](int task) { return workspace_.parts_.data() + area(slot, task - first); };
    const int first_unit = unit_of(first);
    const auto compute_task = [&](int i, int worker) {
      const int task = first + i;
      const int u = unit_of(task);
      compute(unit(u), task - first_task(u), worker, sums_of(task));
    };
    const auto fold_task = [&](int i, int) {
      const int index = first_unit + i / folds;
      const Unit u = unit(index);
      const int head = i % folds * fold_heads;
      const int heads = std::min(fold_heads, u.heads - head);
      if (heads <= 0) return;
      const int base = first_task(index);
      const int count = parts(u.run);
      for (int part = std::max(1, first - base); part < std::min(count, end - base); ++part) {
        fold(u, part, sums_of(base + part), head, heads);
      }
      if (base + count <= end) finish(u, head, heads);
    };
    const std::array phases{
        base::Phase{.tasks = end - first, .body = compute_task},
        base::Phase{.tasks = (unit_of(end - 1) - first_unit + 1) * folds, .body = fold_task}};
    context_.pool.run_phases(phases);
  }
}

void PartedAttention::run() {
  // A row that selects its own positions shares them with no other.
  runs_ = list_runs(
      call_.rows, [](int) { return true; }, [this](int row) { return selects(row); },
      workspace_.runs_.data());
  if (cut()) {
    run_parts();
  } else {
    run_whole();
  }
}

void attend(const Context& context, const AttentionShape& shape, const AttentionCall& call,
            AttentionWorkspace& workspace) {
  PartedAttention(context, shape, call, workspace).run();
}

}  // namespace tagalong::nn
