#include "routing/route.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace tagalong::routing {
namespace {

RoutePlan route_rows(const std::vector<float>& logits, const RouterSpec& spec,
                     const RoutingPolicy& policy = {}, std::vector<RowRole> roles = {}) {
  validate(spec, "layer");
  validate(policy, spec, "layer");
  if (roles.empty()) roles.assign(logits.size() / static_cast<std::size_t>(spec.experts), RowRole::kDecode);
  RouteScratch scratch;
  RoutePlan plan;
  scratch.reserve(static_cast<int>(roles.size()), spec, policy);
  plan.reserve(static_cast<int>(roles.size()), spec, policy);
  route(logits, spec, policy, roles, scratch, plan);
  return plan;
}

std::vector<int> ids(const RoutePlan& plan, int row) {
  return {plan.ids_of(row).begin(), plan.ids_of(row).end()};
}

TEST(Route, SoftmaxTakesTheBestAndRenormalises) {
  const RoutePlan plan = route_rows({0, 2, 1, -1}, {.scoring = Scoring::kSoftmax, .experts = 4, .top_k = 2});
  EXPECT_EQ(ids(plan, 0), (std::vector<int>{1, 2}));
  EXPECT_NEAR(plan.weights_of(0)[0], 1 / (1 + std::exp(-1.0)), 1e-6);
  EXPECT_NEAR(plan.weights_of(0)[1], 1 / (1 + std::exp(1.0)), 1e-6);
}

TEST(Route, TiesGoToTheLowestId) {
  const RoutePlan plan = route_rows({1, 1, 1, 1, 1, 0.5F, 0.0F, -0.0F},
                                    {.scoring = Scoring::kSoftmax, .experts = 4, .top_k = 3});
  EXPECT_EQ(ids(plan, 0), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(ids(plan, 1), (std::vector<int>{0, 1, 2}));
}

TEST(Route, OeaTagsAlongWithVotedExperts) {
  // Votes: 0 and 3. Row 0 would take 0 and 1, row 1 takes 3 and 2; with k0 = 1 both take {0, 3}.
  const RoutePlan plan =
      route_rows({4, 3, 1, 2, 1, 0, 2, 3}, {.scoring = Scoring::kSigmoid, .experts = 4, .top_k = 2},
                 parse_policy("oea:k0=1"));
  EXPECT_EQ(ids(plan, 0), (std::vector<int>{0, 3}));
  EXPECT_EQ(ids(plan, 1), (std::vector<int>{3, 0}));
  EXPECT_EQ(plan.stats.experts_exact, 4);
  EXPECT_EQ(plan.stats.experts, 2);
  EXPECT_EQ(plan.stats.replaced_slots, 2);
}

TEST(Route, PaddingHasNoEntriesAndNoVote) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const RoutePlan plan =
      route_rows({4, 3, 1, 2, nan, 9, nan, 9}, {.experts = 4, .top_k = 2},
                 parse_policy("oea:k0=1,min_rows=1"), {RowRole::kDecode, RowRole::kPadding});
  EXPECT_EQ(ids(plan, 0), (std::vector<int>{0}));
  EXPECT_EQ(plan.weights_of(0)[0], 1.0F);
  EXPECT_TRUE(plan.ids_of(1).empty());
  EXPECT_EQ(plan.row_ids[2], -1);
  EXPECT_EQ(plan.entry_count(), 1);
  EXPECT_EQ(plan.stats.nan_rows, 0);
}

}  // namespace
}  // namespace tagalong::routing
