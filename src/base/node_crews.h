// The workers of a pool in crews, one for each NUMA node that has some of them, and how work that lies on the
// nodes is divided among them. Workers are numbered crew by crew.
//
// What is divided (the tiles of a matrix, say) goes to the crews as contiguous ranges in proportion to their
// workers, by the counts alone: whoever places memory and whoever deals tasks come to the same ranges.
// Immutable. A single crew is the case without nodes: it has everything.
#pragma once

#include <span>
#include <vector>

#include "base/numa.h"
#include "base/range.h"

namespace tagalong::base {

inline constexpr int kMaxCrews = 32;

class NodeCrews {
 public:
  struct Crew {
    int node;  // the kernel's number
    int workers;
  };

  // 1 to kMaxCrews crews of at least one worker each.
  explicit NodeCrews(std::span<const Crew> crews);
  // All workers as one crew.
  explicit NodeCrews(int workers) : NodeCrews(std::vector<Crew>{{.node = 0, .workers = workers}}) {}

  int count() const { return static_cast<int>(nodes_.size()); }
  int node(int crew) const { return nodes_[static_cast<std::size_t>(crew)]; }
  int workers() const { return first_.back(); }
  Range workers_of(int crew) const {
    return {first_[static_cast<std::size_t>(crew)], first_[static_cast<std::size_t>(crew) + 1]};
  }
  int crew_of(int worker) const;

  // The crew's part of the numbers from 0 to before `total`.
  Range share(int total, int crew) const;

 private:
  std::vector<int> nodes_;  // [crews]
  std::vector<int> first_;  // [crews + 1] first worker of each, then their number
};

// Where the workers of a pool are to run.
struct WorkerPlaces {
  NodeCrews crews;
  std::vector<std::vector<int>> cpus;  // [workers] that each may run on; empty: wherever the kernel likes
};

// Spreads workers over nodes in proportion to the nodes' CPUs. As many workers as CPUs get one each. Fewer or
// more share the CPUs of their node, or are left alone where they all are on one. More than kMaxCrews nodes
// count as one.
WorkerPlaces place_workers(int workers, std::span<const NumaNode> nodes);

}  // namespace tagalong::base
