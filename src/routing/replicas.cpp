#include "routing/replicas.h"

#include <algorithm>

#include "base/check.h"
#include "base/error.h"
#include "routing/plan_csr.h"

namespace tagalong::routing {

namespace {

template <typename T>
void grow(std::vector<T>& buffer, int size) {
  if (buffer.size() < static_cast<std::size_t>(size)) buffer.resize(static_cast<std::size_t>(size));
}

std::size_t index(int i) { return static_cast<std::size_t>(i); }

int rank_of_choice(const ReplicaTable& table, const ReplicaScratch& scratch, int expert) {
  return table.rank_of(scratch.choice[index(expert)]);
}

// Looks for a way to relieve `from`: a chain of experts, each moving to another rank of its copies, that ends
// on a rank at least two below. Moves them and returns true, or false if there is none.
bool relieve(const ReplicaTable& table, std::span<const std::int32_t> active, int from,
             ReplicaScratch& scratch) {
  constexpr std::int32_t kUnseen = -2;
  constexpr std::int32_t kStart = -1;
  std::fill_n(scratch.reached_by.begin(), index(table.ranks()), kUnseen);
  int queued = 0;
  scratch.queue[index(queued++)] = from;
  scratch.reached_by[index(from)] = kStart;
  for (int next = 0; next < queued; ++next) {
    const int rank = scratch.queue[index(next)];
    for (const std::int32_t expert : active) {
      if (rank_of_choice(table, scratch, expert) != rank) continue;
      for (const std::int32_t copy : table.copies_of(expert)) {
        const int to = table.rank_of(copy);
        if (scratch.reached_by[index(to)] != kUnseen) continue;
        scratch.reached_by[index(to)] = expert;
        scratch.queue[index(queued++)] = to;
        if (scratch.load[index(to)] > scratch.load[index(from)] - 2) continue;
        --scratch.load[index(from)];
        ++scratch.load[index(to)];
        // Walk back: the expert that reached a rank moves there from the rank it was chosen on.
        for (int at = to; at != from;) {
          const std::int32_t mover = scratch.reached_by[index(at)];
          const int previous = rank_of_choice(table, scratch, mover);
          for (const std::int32_t other : table.copies_of(mover)) {
            if (table.rank_of(other) == at) {
              scratch.choice[index(mover)] = other;
              break;
            }
          }
          at = previous;
        }
        return true;
      }
    }
  }
  return false;
}

// One copy per active expert: first the copy on the emptiest rank, then chains until the fullest rank cannot
// be relieved. Without such a chain the assignment is optimal (a semi-matching without a cost-reducing path).
void choose_metro(const ReplicaTable& table, std::span<const std::int32_t> active, ReplicaScratch& scratch) {
  for (const std::int32_t expert : active) {
    std::int32_t best = table.copies_of(expert)[0];
    for (const std::int32_t copy : table.copies_of(expert)) {
      if (scratch.load[index(table.rank_of(copy))] < scratch.load[index(table.rank_of(best))]) best = copy;
    }
    scratch.choice[index(expert)] = best;
    ++scratch.load[index(table.rank_of(best))];
  }
  // Each relief lowers the sum of squared loads, so this ends.
  while (true) {
    const auto loads = std::span(scratch.load).first(index(table.ranks()));
    const int most = *std::ranges::max_element(loads);
    bool relieved = false;
    for (int rank = 0; rank < table.ranks() && !relieved; ++rank) {
      relieved = scratch.load[index(rank)] == most && relieve(table, active, rank, scratch);
      // One rank at the top that cannot be relieved settles the maximum.
      if (scratch.load[index(rank)] == most && !relieved) return;
    }
  }
}

}  // namespace

ReplicaTable::ReplicaTable(std::span<const std::vector<std::int32_t>> copies, const Placement& placement,
                           std::string_view name)
    : offsets_{0}, rank_of_(placement.rank_of), ranks_(placement.ranks) {
  if (ranks_ < 1 || ranks_ > kMaxRanks)
    throw base::input_error("{}: ranks = {}, expected 1..{}", name, ranks_, kMaxRanks);
  for (std::size_t id = 0; id < rank_of_.size(); ++id) {
    if (rank_of_[id] < 0 || rank_of_[id] >= ranks_) {
      throw base::input_error("{}: rank_of[{}] = {}, expected 0..{}", name, id, rank_of_[id], ranks_ - 1);
    }
  }
  std::vector<bool> taken(rank_of_.size(), false);
  for (std::size_t expert = 0; expert < copies.size(); ++expert) {
    if (copies[expert].empty())
      throw base::input_error("{}: expert {} has 0 copies, expected at least 1", name, expert);
    for (const std::int32_t id : copies[expert]) {
      if (id < 0 || static_cast<std::size_t>(id) >= rank_of_.size()) {
        throw base::input_error("{}: copy {} of expert {}, expected 0..{}", name, id, expert,
                                static_cast<std::int64_t>(rank_of_.size()) - 1);
      }
      if (taken[static_cast<std::size_t>(id)]) {
        throw base::input_error("{}: physical expert {} is a copy of expert {} and of another, expected one",
                                name, id, expert);
      }
      taken[static_cast<std::size_t>(id)] = true;
      copies_.push_back(id);
    }
    offsets_.push_back(static_cast<std::int32_t>(copies_.size()));
  }
}

void ReplicaScratch::reserve(const ReplicaTable& table) {
  grow(choice, table.logical_experts());
  grow(load, table.ranks());
  grow(reached_by, table.ranks());
  grow(queue, table.ranks());
  grow(next_free, table.physical_experts() + 64);
}

int place_on_replicas(const RoutePlan& logical, const ReplicaTable& table, ReplicaRule rule,
                      ReplicaScratch& scratch, RoutePlan& physical) {
  const int shared = logical.experts - table.logical_experts();
  CHECK(shared >= 0 && shared <= 64, "{} experts of a table for {}", logical.experts,
        table.logical_experts());
  const auto routed = std::ranges::lower_bound(logical.active_experts(), table.logical_experts());
  const auto active =
      logical.active_experts().first(static_cast<std::size_t>(routed - logical.active_experts().begin()));
  std::fill_n(scratch.load.begin(), index(table.ranks()), 0);
  if (rule == ReplicaRule::kMetro) choose_metro(table, active, scratch);

  physical.rows = logical.rows;
  physical.experts = table.physical_experts() + shared;
  physical.slots = logical.slots;
  physical.weight_side = logical.weight_side;
  physical.stats = logical.stats;
  const std::size_t slots = index(logical.rows) * index(logical.slots);
  std::copy_n(logical.row_counts.begin(), index(logical.rows), physical.row_counts.begin());
  std::copy_n(logical.row_weights.begin(), slots, physical.row_weights.begin());
  for (std::size_t slot = 0; slot < slots; ++slot) {
    const std::int32_t id = logical.row_ids[slot];
    const auto row = static_cast<int>(slot / index(logical.slots));
    std::int32_t& target = physical.row_ids[slot];
    if (id < 0) {
      target = id;
    } else if (id >= table.logical_experts()) {
      target = id - table.logical_experts() + table.physical_experts();
    } else if (rule == ReplicaRule::kMetro) {
      target = scratch.choice[index(id)];
    } else {
      const auto copies = table.copies_of(id);
      target = copies[index(row) % copies.size()];
    }
  }
  build_csr(physical, scratch.next_free);

  std::fill_n(scratch.load.begin(), index(table.ranks()), 0);
  for (const std::int32_t id : physical.active_experts()) {
    if (id < table.physical_experts()) ++scratch.load[index(table.rank_of(id))];
  }
  physical.stats.fullest_rank =
      *std::ranges::max_element(std::span(scratch.load).first(index(table.ranks())));
  return physical.stats.fullest_rank;
}

}  // namespace tagalong::routing
