// Nothing is allocated in route() once plan and scratch are reserved: this program counts calls of operator
// new.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "routing/replicas.h"
#include "routing/route_testing.h"
#include "routing/statistics.h"

namespace {
std::atomic<long> allocations{0};
}

void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
// The sanitizers' own would not match the deletes below.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(size == 0 ? 1 : size);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace tagalong::routing {
namespace {

TEST(Allocation, NoneInAStep) {
  ProblemMaker maker(3);
  for (int repeat = 0; repeat < 50; ++repeat) {
    const Problem problem = maker.problem(30);
    const Placement placement = contiguous_placement(problem.spec.experts, 2);
    std::vector<std::vector<std::int32_t>> copies;
    for (int e = 0; e < problem.spec.experts; ++e) copies.push_back({e});
    const ReplicaTable table(copies, placement, "table");
    RouteScratch scratch;
    RoutePlan plan;
    RoutePlan physical;
    ReplicaScratch replica_scratch;
    RoutingStatistics statistics(1, problem.spec.plan_experts());
    const std::vector<RoutingPolicy> policies = policies_for(problem.spec);
    for (const RoutingPolicy& policy : policies) {
      scratch.reserve(problem.rows(), problem.spec, policy);
      plan.reserve(problem.rows(), problem.spec, policy);
      physical.reserve(problem.rows(), problem.spec, policy);
    }
    replica_scratch.reserve(table);
    const long before = allocations.load();
    for (const RoutingPolicy& policy : policies) {
      route({.logits = problem.logits, .roles = problem.roles, .placement = &placement}, problem.spec, policy,
            scratch, plan);
      statistics.add(0, plan);
      place_on_replicas(plan, table, ReplicaRule::kMetro, replica_scratch, physical);
    }
    EXPECT_EQ(allocations.load(), before);
  }
  EXPECT_GT(allocations.load(), 0) << "the count itself must work";
}

}  // namespace
}  // namespace tagalong::routing
