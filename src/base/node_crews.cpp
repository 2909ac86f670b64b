#include "base/node_crews.h"

#include <algorithm>
#include <cstdint>

#include "base/check.h"

namespace tagalong::base {

NodeCrews::NodeCrews(std::span<const Crew> crews) : first_{0} {
  CHECK(!crews.empty() && crews.size() <= kMaxCrews, "{} crews", crews.size());
  for (const Crew& crew : crews) {
    CHECK(crew.workers >= 1, "{} workers", crew.workers);
    nodes_.push_back(crew.node);
    first_.push_back(first_.back() + crew.workers);
  }
}

int NodeCrews::crew_of(int worker) const {
  int crew = 0;
  while (worker >= workers_of(crew).end) ++crew;
  return crew;
}

Range NodeCrews::share(int total, int crew) const {
  if (count() == 1) return {0, total};
  const auto [begin, end] = workers_of(crew);
  return {static_cast<int>(std::int64_t{total} * begin / workers()),
          static_cast<int>(std::int64_t{total} * end / workers())};
}

WorkerPlaces place_workers(int workers, std::span<const NumaNode> nodes) {
  std::vector<NumaNode> places(nodes.begin(), nodes.end());
  if (nodes.size() > kMaxCrews) {
    places.resize(1);
    for (const NumaNode& node : nodes.subspan(1)) {
      places.front().cpus.insert(places.front().cpus.end(), node.cpus.begin(), node.cpus.end());
    }
    std::sort(places.front().cpus.begin(), places.front().cpus.end());
  }
  std::int64_t total = 0;
  for (const NumaNode& node : places) total += static_cast<std::int64_t>(node.cpus.size());

  std::vector<NodeCrews::Crew> crews;
  std::vector<std::vector<int>> cpus;
  std::int64_t before = 0;  // CPUs of the nodes so far
  for (const NumaNode& node : places) {
    const std::int64_t after = before + static_cast<std::int64_t>(node.cpus.size());
    const int count = static_cast<int>(workers * after / total - workers * before / total);
    before = after;
    if (count == 0) continue;
    crews.push_back({.node = node.id, .workers = count});
    for (int i = 0; i < count; ++i) {
      cpus.push_back(workers == total ? std::vector{node.cpus[static_cast<std::size_t>(i)]} : node.cpus);
    }
  }
  if (crews.size() == 1 && workers != total) cpus.clear();
  return {NodeCrews(crews), std::move(cpus)};
}

}  // namespace tagalong::base
