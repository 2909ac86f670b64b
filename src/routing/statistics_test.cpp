#include "routing/statistics.h"

#include <gtest/gtest.h>

#include <atomic>
#include <sstream>
#include <thread>

#include "routing/recorder.h"
#include "routing/route_testing.h"

namespace tagalong::routing {
namespace {

// Three rows of four experts, top-2: experts {0, 1}, {0, 2} and padding.
Problem three_rows() {
  Problem problem;
  problem.spec.experts = 4;
  problem.spec.top_k = 2;
  problem.add_row({5, 4, 0, 0}, RowRole::kDecode);
  problem.add_row({5, 0, 4, 0}, RowRole::kDecode);
  problem.add_row({0, 0, 0, 9}, RowRole::kPadding);
  return problem;
}

TEST(Statistics, CountsWhatPlansSay) {
  RoutingStatistics statistics(2, 4);
  statistics.add(1, route_problem(three_rows(), {}));
  statistics.add(1, route_problem(three_rows(), parse_policy("pruned:k0=1")));
  const LayerTotals totals = statistics.snapshot(1);
  EXPECT_EQ(totals.layer_steps, 2U);
  EXPECT_EQ(totals.rows, 4U);
  EXPECT_EQ(totals.experts_exact, 6U);
  EXPECT_EQ(totals.experts, 4U);
  EXPECT_EQ(totals.replaced_slots, 2U);
  EXPECT_EQ(totals.short_rows, 2U);
  EXPECT_EQ(totals.tokens, (std::vector<std::uint64_t>{4, 1, 1, 0}));
  EXPECT_DOUBLE_EQ(totals.mean_experts(), 2.0);
  EXPECT_DOUBLE_EQ(totals.mean_experts_exact(), 3.0);
  EXPECT_DOUBLE_EQ(totals.balancedness(4), 1.5 / 4.0);
  // Half the rows kept 1 / (1 + e^-1) of their mass, the others all.
  EXPECT_NEAR(totals.mean_kept_mass(), (1.0 + 1.0 / (1.0 + std::exp(-1.0))) / 2.0, 1e-6);
  EXPECT_EQ(statistics.snapshot(0).layer_steps, 0U);
  EXPECT_DOUBLE_EQ(statistics.snapshot(0).balancedness(4), 1.0);
}

TEST(Statistics, TotalsAreTheSumOfTheLayers) {
  Problem problem = three_rows();
  problem.roles[0] = RowRole::kPrefill;
  const RoutePlan plan = route_problem(problem, parse_policy("pruned:k0=1"));
  RoutingStatistics statistics(3, 4);
  statistics.add(0, plan);
  statistics.add(2, plan);
  statistics.add(2, plan);
  const RoutingTotals totals = statistics.totals();
  EXPECT_EQ(totals.layer_steps, 3U);
  EXPECT_EQ(totals.rows, 6U);
  EXPECT_EQ(totals.decode_rows, 3U);
  EXPECT_EQ(totals.experts_exact, 9U);
  EXPECT_EQ(totals.experts, 6U);
  EXPECT_EQ(totals.replaced_slots, 3U);
  EXPECT_EQ(totals.short_rows, 3U);
  EXPECT_LT(plan.stats.kept_mass, 1.0);
  EXPECT_DOUBLE_EQ(totals.mean_kept_mass(), plan.stats.kept_mass) << "a mean over decode rows";
  EXPECT_DOUBLE_EQ(RoutingTotals{}.mean_kept_mass(), 1.0);
  EXPECT_DOUBLE_EQ(RoutingTotals{}.mean_experts(), 0.0);
}

TEST(Statistics, ASnapshotIsNeverHalfAStep) {
  const RoutePlan plan = route_problem(three_rows(), {});
  RoutingStatistics statistics(1, 4);
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    while (!stop.load()) statistics.add(0, plan);
  });
  std::uint64_t last = 0;
  for (int i = 0; i < 2000 || last < 1000; ++i) {
    const LayerTotals totals = statistics.snapshot(0);
    ASSERT_GE(totals.layer_steps, last);
    ASSERT_EQ(totals.rows, 2 * totals.layer_steps);
    ASSERT_EQ(totals.experts, 3 * totals.layer_steps);
    ASSERT_EQ(totals.tokens, (std::vector<std::uint64_t>{2 * totals.layer_steps, totals.layer_steps,
                                                         totals.layer_steps, 0}));
    last = totals.layer_steps;
  }
  stop.store(true);
  writer.join();
}

std::string recorded(RecorderMode mode) {
  const Problem problem = three_rows();
  std::ostringstream out;
  Recorder recorder(mode, "a \"model\"", {}, problem.spec, 2, out);
  const RoutePlan plan = route_problem(problem, {});
  recorder.record(7, 0, plan, problem.roles);
  recorder.record(8, 0, plan, problem.roles);
  recorder.finish();
  return out.str();
}

TEST(Recorder, WritesItsModes) {
  const std::string header =
      R"("policy":"exact","scoring":"softmax","n_experts":4,"top_k":2,"fused_shared_experts":0,"scaling":1,)"
      R"("renormalise":true,"layers":2,"ranked":true})"
      "\n";
  EXPECT_EQ(recorded(RecorderMode::kStat),
            R"({"model":"a \"model\"","mode":"stat",)" + header +
                R"({"layer":0,"steps":2,"mean_experts_exact":3,"mean_experts":3,)"
                R"("kept_mass":1,"replaced_slots":0,"tokens":[4,2,2,0]})"
                "\n"
                R"({"layer":1,"steps":0,"mean_experts_exact":0,"mean_experts":0,)"
                R"("kept_mass":1,"replaced_slots":0,"tokens":[0,0,0,0]})"
                "\n");
  const std::string pass =
      R"("layer":0,"B":2,"experts_exact":3,"experts":3,"kept_mass":1,"replaced_slots":0,)"
      R"("short_rows":0,)";
  EXPECT_EQ(recorded(RecorderMode::kPerPass), R"({"model":"a \"model\"","mode":"per_pass",)" + header +
                                                  R"({"step":7,)" + pass +
                                                  R"("active":[0,1,2],"tokens":[2,1,1]})"
                                                  "\n"
                                                  R"({"step":8,)" +
                                                  pass +
                                                  R"("active":[0,1,2],"tokens":[2,1,1]})"
                                                  "\n");
  const std::string tokens = recorded(RecorderMode::kPerToken);
  EXPECT_NE(tokens.find(
                R"("decode":[1,1],"ids":[[0,1],[0,2]],"w":[[0.73105854,0.2689414],[0.73105854,0.2689414]]})"),
            std::string::npos)
      << tokens;
}

}  // namespace
}  // namespace tagalong::routing
