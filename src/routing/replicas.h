// Logical to physical experts: a table of copies, and which copy a plan uses. Applied after selection.
//
// Two rules. By row: row r uses copy r modulo their number, which spreads tokens and is the same every time.
// METRO (arXiv 2512.09277): each active expert uses one copy, chosen so that the largest number of active
// experts on any rank is the least possible; in memory-bound decode that number is the step's time. Tables
// are built and checked once; applying them neither allocates nor fails.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "routing/placement.h"
#include "routing/route_plan.h"

namespace tagalong::routing {

class ReplicaTable {
 public:
  // copies[e] lists the physical ids of expert e; physical experts live where `placement` says, by physical
  // id. Throws base::InputError naming `name`: an expert without a copy, an id out of range or used twice.
  ReplicaTable(std::span<const std::vector<std::int32_t>> copies, const Placement& placement,
               std::string_view name);

  int logical_experts() const { return static_cast<int>(offsets_.size()) - 1; }
  int physical_experts() const { return static_cast<int>(rank_of_.size()); }
  int ranks() const { return ranks_; }
  std::span<const std::int32_t> copies_of(int expert) const {
    const auto begin = static_cast<std::size_t>(offsets_[static_cast<std::size_t>(expert)]);
    return {copies_.data() + begin,
            static_cast<std::size_t>(offsets_[static_cast<std::size_t>(expert) + 1]) - begin};
  }
  int rank_of(int physical) const { return rank_of_[static_cast<std::size_t>(physical)]; }

 private:
  std::vector<std::int32_t> offsets_;  // [logical + 1], into copies_
  std::vector<std::int32_t> copies_;
  std::vector<std::int32_t> rank_of_;  // [physical]
  int ranks_;
};

// Working memory of the choice, reserved once.
struct ReplicaScratch {
  void reserve(const ReplicaTable& table);
  std::vector<std::int32_t> choice;      // [logical], the copy an expert uses
  std::vector<std::int32_t> load;        // [ranks], active experts
  std::vector<std::int32_t> reached_by;  // [ranks], the expert that could move here; -1 for a start
  std::vector<std::int32_t> queue;       // [ranks]
  std::vector<std::int32_t> next_free;   // [physical + 1], fill positions
};

enum class ReplicaRule : std::uint8_t { kByRow, kMetro };

// Rewrites `logical` as a plan over physical experts (fused shared experts keep their place after the routed
// ones). `physical` must have been reserved for the rows and a spec with physical_experts() experts.
// Statistics stay those of the logical plan but for the fullest rank. Returns the largest number of active
// physical experts on any rank.
int place_on_replicas(const RoutePlan& logical, const ReplicaTable& table, ReplicaRule rule,
                      ReplicaScratch& scratch, RoutePlan& physical);

}  // namespace tagalong::routing
