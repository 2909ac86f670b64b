#include "routing/route.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
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

TEST(Route, ExpertsOfExactRowsAreFreeForDecodeRows) {
  // The exact row brings 2 and 3; the decode row votes 0 and prefers 3 to its own second choice 1, which
  // nobody loads.
  for (const RowRole exact : {RowRole::kPrefill, RowRole::kPinnedExact}) {
    const RoutePlan plan = route_rows({4, 3, 1, 2, 0, 0, 5, 4}, {.experts = 4, .top_k = 2},
                                      parse_policy("oea:k0=1,min_rows=1"), {RowRole::kDecode, exact});
    EXPECT_EQ(ids(plan, 0), (std::vector<int>{0, 3}));
    EXPECT_EQ(ids(plan, 1), (std::vector<int>{2, 3}));
    EXPECT_EQ(plan.stats.decode_rows, 1);
  }
}

TEST(Route, KeptMassIsThatOfDecodeRowsAlone) {
  const std::vector<float> decode = {4, 3, 1, 2};
  std::vector<float> both = decode;
  both.insert(both.end(), {0, 0, 5, 4});
  for (const bool renormalise : {true, false}) {
    const RouterSpec spec{.experts = 4, .top_k = 2, .renormalise = renormalise};
    const RoutingPolicy policy = parse_policy("pruned:k0=1");
    const double alone = route_rows(decode, spec, policy).stats.kept_mass;
    EXPECT_NEAR(alone, 1 / (1 + std::exp(-1.0)), 1e-6);
    for (const RowRole other : {RowRole::kPrefill, RowRole::kPinnedExact, RowRole::kPadding}) {
      EXPECT_EQ(route_rows(both, spec, policy, {RowRole::kDecode, other}).stats.kept_mass, alone);
    }
  }
}

TEST(Route, GroupsOfTwoAddScoresAndNotLogits) {
  // Scores 1.00 + .05 against .88 + .88; the logits' sums 5 and 4 would say the other.
  const RouterSpec spec{.scoring = Scoring::kSigmoid,
                        .experts = 4,
                        .top_k = 1,
                        .groups = 2,
                        .topk_groups = 1,
                        .group_score = GroupScore::kSumOfTopTwo};
  EXPECT_EQ(ids(route_rows({8, -3, 2, 2}, spec), 0), (std::vector<int>{2}));
}

TEST(Route, ResidentExpertsAreFree) {
  const std::vector<float> logits = {4, 3, 1, 2};
  const std::vector<RowRole> roles = {RowRole::kDecode};
  const RouterSpec spec{.experts = 4, .top_k = 2};
  const RoutingPolicy policy = parse_policy("oea:k0=1,min_rows=1");
  std::vector<std::uint64_t> resident(expert_set_words(4));
  insert(resident, 2);
  RouteScratch scratch;
  RoutePlan plan;
  scratch.reserve(1, spec, policy);
  plan.reserve(1, spec, policy);
  route({.logits = logits, .roles = roles, .resident = resident}, spec, policy, scratch, plan);
  EXPECT_EQ(ids(plan, 0), (std::vector<int>{0, 2}));
}

TEST(Route, ScalingIsAppliedOnceAndNeverToSharedExperts) {
  const RouterSpec spec{
      .scoring = Scoring::kSigmoid, .experts = 3, .top_k = 2, .scaling = 2.5F, .fused_shared_experts = 1};
  const RoutePlan plan = route_rows({1, 1, 1}, spec);
  EXPECT_EQ(ids(plan, 0), (std::vector<int>{0, 1, 3}));
  EXPECT_EQ(plan.weights_of(0)[0], 1.25F);
  EXPECT_EQ(plan.weights_of(0)[1], 1.25F);
  EXPECT_EQ(plan.weights_of(0)[2], 1.0F);
}

TEST(Route, ModelsThatDoNotRenormaliseKeepTheirMass) {
  const RouterSpec spec{.experts = 4, .top_k = 2, .renormalise = false};
  const std::vector<float> logits = {4, 3, 1, 2, 1, 0, 2, 3};
  const RoutePlan exact = route_rows(logits, spec);
  const RoutePlan plan = route_rows(logits, spec, parse_policy("oea:k0=1"));
  for (int row = 0; row < 2; ++row) {
    ASSERT_NE(ids(plan, row), ids(exact, row));
    EXPECT_NEAR(plan.weights_of(row)[0] + plan.weights_of(row)[1],
                exact.weights_of(row)[0] + exact.weights_of(row)[1], 4 * 0x1p-24F);
  }
}

TEST(Route, TinyScoresUnderLargeBiasesKeepTheirWeights) {
  // Scores of 2e-9 vanish beside a bias of 11: the keys tie, and only the logits can tell the weights.
  RouterSpec spec{.scoring = Scoring::kSigmoid, .experts = 4, .top_k = 2};
  spec.correction_bias.assign(4, 11.25F);
  const RoutePlan plan = route_rows({-20, -21, -19, -18}, spec);
  EXPECT_EQ(ids(plan, 0), (std::vector<int>{0, 1}));
  const double share = std::exp(1.0) / (1.0 + std::exp(1.0));
  EXPECT_NEAR(static_cast<double>(plan.weights_of(0)[0]), share, 1e-6);
}

TEST(Route, KeysOneStepApartAreToldApart) {
  // Neighbouring floats near 7, which a bf16 bias could not hold.
  RouterSpec spec{.scoring = Scoring::kSigmoid, .experts = 3, .top_k = 1};
  spec.correction_bias = {6.9F, std::nextafter(6.9F, 7.0F), 6.9F};
  EXPECT_EQ(ids(route_rows({0, 0, 0}, spec), 0), (std::vector<int>{1}));
}

TEST(Route, GivenKeysRankInPlaceOfScoreAndBias) {
  RouterSpec spec{.scoring = Scoring::kSigmoid, .experts = 4, .top_k = 2};
  spec.correction_bias = {9, 0, 0, 0};
  const std::vector<float> logits = {3, 2, 1, 0};
  const std::vector<float> keys = {-4, -3, -1, -2};
  const std::vector<RowRole> roles = {RowRole::kDecode};
  RouteScratch scratch;
  RoutePlan plan;
  scratch.reserve(1, spec);
  plan.reserve(1, spec);
  route({.logits = logits, .keys = keys, .roles = roles}, spec, {}, scratch, plan);
  EXPECT_EQ(ids(plan, 0), (std::vector<int>{2, 3}));
  const double one = 1 / (1 + std::exp(-1.0));
  EXPECT_NEAR(static_cast<double>(plan.weights_of(0)[0]), one / (one + 0.5), 1e-6);
}

TEST(Route, VotesFollowLayerAndRows) {
  const RoutingPolicy policy = parse_policy("oea:k0=4,k0_by_layer=8/6,k0_by_rows=16:3/32:2");
  EXPECT_EQ(votes_per_row(policy, 0, 15), 8);
  EXPECT_EQ(votes_per_row(policy, 1, 15), 6);
  EXPECT_EQ(votes_per_row(policy, 2, 15), 4);
  EXPECT_EQ(votes_per_row(policy, 0, 16), 3);
  EXPECT_EQ(votes_per_row(policy, 0, 99), 2);
}

TEST(Route, BudgetGoesToTheMostWantedExperts) {
  // Votes: 0 and 5. Both rows' second choice is 1; only row 0 wants 2, only row 1 wants 3.
  const std::vector<float> logits = {9, 8, 7, 0, 0, 0, 0, 8, 0, 7, 0, 9};
  const RouterSpec spec{.experts = 6, .top_k = 3};
  const RoutePlan plan = route_rows(logits, spec, parse_policy("oea+budget:k0=1,budget=3"));
  EXPECT_EQ(ids(plan, 0), (std::vector<int>{0, 1, 5}));
  EXPECT_EQ(ids(plan, 1), (std::vector<int>{5, 1, 0}));
  EXPECT_EQ(plan.stats.experts, 3);
}

TEST(Route, RanksAreFilledToTheFullestOrAsToldIfThatIsMore) {
  // Two ranks of four experts; the row's own best are 0 and 1 on the first and 4 and 5 on the second.
  const std::vector<float> logits = {9, 8, 0, 0, 7, 6, 0, 0};
  const std::vector<RowRole> roles = {RowRole::kDecode};
  const RouterSpec spec{.experts = 8, .top_k = 4};
  const Placement placement = contiguous_placement(8, 2);
  const auto routed = [&](const char* text) {
    const RoutingPolicy policy = parse_policy(text);
    RouteScratch scratch;
    RoutePlan plan;
    scratch.reserve(1, spec, policy);
    plan.reserve(1, spec, policy);
    route({.logits = logits, .roles = roles, .placement = &placement}, spec, policy, scratch, plan);
    return ids(plan, 0);
  };
  EXPECT_EQ(routed("oea+ranks:k0=1,min_rows=1"), (std::vector<int>{0, 4}));
  EXPECT_EQ(routed("oea+ranks:k0=1,min_rows=1,per_rank=1"), (std::vector<int>{0, 4}));
  EXPECT_EQ(routed("oea+ranks:k0=1,min_rows=1,per_rank=2"), (std::vector<int>{0, 1, 4, 5}));
}

TEST(Route, LynxDropsTheLeastUsed) {
  const std::vector<float> logits = {9, 8, 0, 0, 9, 8, 0, 0, 9, 0, 8, 0};
  const RoutePlan plan = route_rows(logits, {.experts = 4, .top_k = 2}, parse_policy("lynx:drop=1"));
  EXPECT_EQ(ids(plan, 2), (std::vector<int>{0, 1}));
  EXPECT_EQ(plan.stats.experts, 2);
}

TEST(Route, ShortRowsRenormaliseOverWhatTheyKeep) {
  const std::vector<float> logits = {2, 1, 0, -1};
  const RouterSpec spec{.experts = 4, .top_k = 3};
  EXPECT_EQ(ids(route_rows(logits, spec, parse_policy("ser:k_min=1,t=0.3")), 0), (std::vector<int>{0, 1}));
  EXPECT_EQ(ids(route_rows(logits, spec, parse_policy("ser:k_min=1,t=0.4")), 0), (std::vector<int>{0}));
  // The softmax is .644 .237 .087 .032.
  EXPECT_EQ(ids(route_rows(logits, spec, parse_policy("topp:p=0.64")), 0), (std::vector<int>{0}));
  EXPECT_EQ(ids(route_rows(logits, spec, parse_policy("topp:p=0.65")), 0), (std::vector<int>{0, 1}));
  const RoutePlan plan = route_rows(logits, spec, parse_policy("pruned:k0=2"));
  EXPECT_EQ(plan.stats.short_rows, 1);
  EXPECT_NEAR(plan.weights_of(0)[0] + plan.weights_of(0)[1], 1.0F, 4 * 0x1p-24F);
  EXPECT_NEAR(plan.stats.kept_mass, (0.6439 + 0.2369) / (0.6439 + 0.2369 + 0.0871), 1e-3);
}

TEST(Route, ThresholdsThatAreMetExactly) {
  // Scores of one half each, or four halves of which the row's share is counted.
  const RouterSpec two{.experts = 2, .top_k = 2};
  EXPECT_EQ(ids(route_rows({1, 1}, two, parse_policy("topp:p=0.5")), 0), (std::vector<int>{0}));
  EXPECT_EQ(ids(route_rows({1, 1}, two, parse_policy("topp:p=0.6")), 0), (std::vector<int>{0, 1}));
  EXPECT_EQ(ids(route_rows({1, 1}, two, parse_policy("ser:k_min=1,t=1")), 0), (std::vector<int>{0}));
  const RouterSpec four{.scoring = Scoring::kSigmoid, .experts = 4, .top_k = 4};
  EXPECT_EQ(ids(route_rows({0, 0, 0, 0}, four, parse_policy("topp:p=0.5")), 0), (std::vector<int>{0, 1}));
}

TEST(Route, EquallyWantedExpertsGoByTheLowerId) {
  // Votes 0 and 5; 1 and 2 are wanted alike and there is room for one.
  const RoutePlan plan = route_rows({9, 8, 0, 0, 0, 0, 0, 0, 8, 0, 0, 9}, {.experts = 6, .top_k = 2},
                                    parse_policy("oea+budget:k0=1,budget=3"));
  EXPECT_EQ(ids(plan, 0), (std::vector<int>{0, 1}));
  EXPECT_EQ(ids(plan, 1), (std::vector<int>{5, 0}));
}

TEST(Route, OnlyDecodeRowsAddToTheBatchsScores) {
  // The exact row brings 1 and takes one of the two places; its liking for 2 must not give 2 the other.
  const RoutePlan plan =
      route_rows({1, 0, 0.9F, 0, 0, 9, 8.9F, 0}, {.experts = 4, .top_k = 1},
                 parse_policy("xshare:budget=2,min_rows=1"), {RowRole::kDecode, RowRole::kPrefill});
  EXPECT_EQ(ids(plan, 0), (std::vector<int>{0}));
}

TEST(Route, LynxDropsAsManyAsItIsTold) {
  // 0 is used three times, 1 twice, 2 once.
  const std::vector<float> logits = {9, 0, 0, 9, 0, 0, 9, 0, 0, 0, 9, 0, 0, 9, 0, 0, 8, 9};
  const RoutePlan plan = route_rows(logits, {.experts = 3, .top_k = 1}, parse_policy("lynx:drop=1"));
  EXPECT_EQ(plan.stats.experts, 2);
  EXPECT_EQ(ids(plan, 5), (std::vector<int>{1}));
}

// One row votes 1 of 64 experts, so that a random set is the one expert the row then uses.
TEST(Route, RandomSetsFollowSeedLayerAndStep) {
  const RouterSpec spec{.experts = 64, .top_k = 2};
  const std::vector<float> logits(64, 0.0F);
  const std::vector<RowRole> roles = {RowRole::kDecode};
  const auto draw = [&](int seed, int layer, std::uint64_t step) {
    RoutingPolicy policy = parse_policy("random-set:k0=1,min_rows=1");
    policy.seed = seed;
    RouteScratch scratch;
    RoutePlan plan;
    scratch.reserve(1, spec, policy);
    plan.reserve(1, spec, policy);
    route({.logits = logits, .roles = roles, .layer = layer, .step = step}, spec, policy, scratch, plan);
    return ids(plan, 0).at(0);
  };
  std::vector<std::set<int>> drawn(3);
  for (int i = 0; i < 32; ++i) {
    EXPECT_EQ(draw(i, 0, 0), draw(i, 0, 0));
    drawn[0].insert(draw(i, 0, 0));
    drawn[1].insert(draw(0, i, 0));
    drawn[2].insert(draw(0, 0, static_cast<std::uint64_t>(i)));
  }
  // 32 draws of 64 leave 25 different ones in the mean and 15 practically always.
  for (const std::set<int>& different : drawn) EXPECT_GT(different.size(), 15U);
}

TEST(Route, LimitsOfTheGeneralForm) {
  // Row 0 ranks 0 1 2 3; rows 1 and 2 vote 2 and 3.
  const std::vector<float> logits = {4, 3, 2, 1, 0, 0, 9, 1, 0, 0, 1, 9};
  const RouterSpec spec{.experts = 4, .top_k = 2};
  EXPECT_EQ(ids(route_rows(logits, spec, parse_policy("oea:k0=1")), 0), (std::vector<int>{0, 2}));
  EXPECT_EQ(ids(route_rows(logits, spec, parse_policy("oea:k0=1,k_max=3")), 0), (std::vector<int>{0, 2, 3}));
  EXPECT_EQ(ids(route_rows(logits, spec, parse_policy("oea:k0=1,max_rank=2")), 0), (std::vector<int>{0}));
  EXPECT_EQ(ids(route_rows(logits, spec, parse_policy("oea:k0=1,k_max=3,max_rank=3")), 0),
            (std::vector<int>{0, 2}));
}

TEST(Route, HashedLayersAreExactUnderEveryPolicy) {
  RouterSpec spec{.scoring = Scoring::kSigmoid, .experts = 4, .top_k = 2};
  spec.hash_table = {3, 1, 0, 2};
  const std::vector<float> logits = {0, 0, 0, 0, 1, 0, 1, 0};
  const std::vector<RowRole> roles(2, RowRole::kDecode);
  const std::vector<std::int32_t> tokens = {0, 1};
  const RoutingPolicy policy = parse_policy("oea:k0=1");
  RouteScratch scratch;
  RoutePlan plan;
  scratch.reserve(2, spec, policy);
  plan.reserve(2, spec, policy);
  route({.logits = logits, .roles = roles, .token_ids = tokens}, spec, policy, scratch, plan);
  EXPECT_EQ(ids(plan, 0), (std::vector<int>{3, 1}));
  EXPECT_EQ(ids(plan, 1), (std::vector<int>{0, 2}));
  EXPECT_EQ(plan.weights_of(1)[0], 0.5F);
}

TEST(Route, TheInputSideIsMarked) {
  const RoutePlan plan =
      route_rows({0, 1}, {.scoring = Scoring::kSigmoidInput, .experts = 2, .top_k = 1, .renormalise = false});
  EXPECT_EQ(plan.weight_side, WeightSide::kInput);
  EXPECT_EQ(ids(plan, 0), (std::vector<int>{1}));
  EXPECT_NEAR(plan.weights_of(0)[0], 1 / (1 + std::exp(-1.0)), 1e-6);
}

TEST(Route, NanRowsAreCounted) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const RoutePlan plan = route_rows({nan, nan, nan, 1, nan, 0}, {.experts = 3, .top_k = 2});
  EXPECT_EQ(ids(plan, 0), (std::vector<int>{0, 1}));
  EXPECT_EQ(ids(plan, 1), (std::vector<int>{0, 2}));
  EXPECT_EQ(plan.stats.nan_rows, 2);
}

TEST(Route, NoRowsIsAnEmptyPlan) {
  const RoutePlan plan = route_rows({}, {.experts = 3, .top_k = 2}, parse_policy("oea:k0=1"), {});
  EXPECT_EQ(plan.entry_count(), 0);
  EXPECT_TRUE(plan.active_experts().empty());
}

}  // namespace
}  // namespace tagalong::routing
