// Everything a config, a policy string or a table can get wrong is said when it is built: field, value,
// range.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "base/error.h"
#include "routing/placement.h"
#include "routing/recorder.h"
#include "routing/replicas.h"
#include "routing/router_spec.h"
#include "routing/routing_policy.h"

namespace tagalong::routing {
namespace {

using testing::HasSubstr;

// The message of the InputError that `body` throws; a remark if it throws none.
std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const base::InputError& error) {
    return error.what();
  }
  return "(nothing was thrown)";
}

RouterSpec good_spec() {
  RouterSpec spec;
  spec.scoring = Scoring::kSigmoid;
  spec.experts = 16;
  spec.top_k = 4;
  spec.groups = 4;
  spec.topk_groups = 2;
  spec.group_score = GroupScore::kSumOfTopTwo;
  spec.correction_bias.assign(16, 0.5F);
  return spec;
}

TEST(BadInput, SpecNamesFieldValueAndRange) {
  EXPECT_NO_THROW(validate(good_spec(), "layer 3"));
  RouterSpec tight = good_spec();  // one group of four holds a row's four
  tight.topk_groups = 1;
  EXPECT_NO_THROW(validate(tight, "layer 3"));
  const auto expect = [](const std::function<void(RouterSpec&)>& spoil,
                         std::initializer_list<const char*> parts) {
    RouterSpec spec = good_spec();
    spoil(spec);
    const std::string message = message_of([&] { validate(spec, "layer 3"); });
    EXPECT_THAT(message, HasSubstr("layer 3"));
    for (const char* part : parts) EXPECT_THAT(message, HasSubstr(part));
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  expect([](RouterSpec& s) { s.experts = 0; }, {"experts = 0", "1..4096"});
  expect([](RouterSpec& s) { s.top_k = 17; }, {"top_k = 17", "1..16"});
  expect([](RouterSpec& s) { s.top_k = 0; }, {"top_k = 0", "1..16"});
  expect([](RouterSpec& s) { s.groups = 3; }, {"groups = 3", "divisor of experts = 16"});
  expect([](RouterSpec& s) { s.groups = 0; }, {"groups = 0", "1..16"});
  expect([](RouterSpec& s) { s.topk_groups = 5; }, {"topk_groups = 5", "1..4"});
  expect([](RouterSpec& s) { s.topk_groups = 1, s.top_k = 5; }, {"topk_groups = 1", "top_k = 5"});
  expect([](RouterSpec& s) { s.group_score = GroupScore::kNone; }, {"group_score = none", "topk_groups = 2"});
  expect([](RouterSpec& s) { s.groups = 16, s.topk_groups = 8; }, {"sum of top two", "at least 2"});
  expect([](RouterSpec& s) { s.scaling = 0; }, {"scaling = 0", "above 0"});
  expect([=](RouterSpec& s) { s.scaling = nan; }, {"scaling = nan", "above 0"});
  expect([](RouterSpec& s) { s.correction_bias.pop_back(); }, {"correction_bias has 15", "experts = 16"});
  expect([=](RouterSpec& s) { s.correction_bias[7] = nan; }, {"correction_bias[7] = nan", "finite"});
  expect([](RouterSpec& s) { s.correction_bias[7] = std::numeric_limits<float>::infinity(); },
         {"[7] = inf", "finite"});
  expect([](RouterSpec& s) { s.scoring = Scoring::kTopKThenSoftmax, s.group_score = GroupScore::kMax; },
         {"correction_bias has 16", "none"});
  expect([](RouterSpec& s) { s.scoring = Scoring::kTopKThenSoftmax; }, {"sum of top two", "max"});
  expect([](RouterSpec& s) { s.scoring = Scoring::kSigmoidInput; }, {"renormalise = true", "false"});
  expect([](RouterSpec& s) { s.fused_shared_experts = -1; }, {"fused_shared_experts = -1", "0..16"});
  expect([](RouterSpec& s) { s.hash_table = {0, 1, 2}; }, {"hash_table has 3", "top_k = 4"});
  expect([](RouterSpec& s) { s.hash_table = {0, 1, 2, 3, 4, 5, 16, 7}; }, {"hash_table[1, 2] = 16", "0..15"});
  expect([](RouterSpec& s) { s.hash_table = {0, 1, 2, -1}; }, {"hash_table[0, 3] = -1", "0..15"});
  expect([](RouterSpec& s) { s.hash_table = {0, 1, 2, 1}; }, {"hash_table[0, 3] = 1 twice", "distinct"});
}

TEST(BadInput, PolicyStringNamesKeyAndRange) {
  const auto expect = [](const char* text, std::initializer_list<const char*> parts) {
    const std::string message = message_of([&] { (void)parse_policy(text); });
    for (const char* part : parts) EXPECT_THAT(message, HasSubstr(part)) << text;
  };
  expect("", {"no policy ''", "oea"});
  expect("best", {"no policy 'best'", "exact", "random-set"});
  expect("oea", {"k0 is missing", "oea:k0="});
  expect("oea:", {"expected key=value"});
  expect("oea:k0", {"'k0'", "key=value"});
  expect("oea:k0=0", {"k0 = 0", "1..64"});
  expect("oea:k0=4x", {"k0 = 4x", "1..64"});
  expect("oea:k0=99999999999", {"k0 = 99999999999", "1..64"});
  expect("oea:k0=4,", {"comma"});
  expect("oea:k0=4,k0=5", {"k0 is given twice"});
  expect("oea:k0=4,budget=9", {"no key 'budget'", "k_max"});
  expect("oea:k0=4,p=0", {"p = 0", "above 0"});
  expect("oea:k0=4,p=nan", {"p = nan", "above 0"});
  expect("oea:k0=4,min_rows=0", {"min_rows = 0", "1.."});
  expect("oea:k0=4,k0_by_layer=4/0", {"k0_by_layer = 4/0", "1..64"});
  expect("oea:k0=4,k0_by_rows=16:4/2:6", {"k0_by_rows = 16:4/2:6", "rising"});
  expect("oea:k0=4,k0_by_rows=16", {"k0_by_rows = 16", "rows:k0"});
  expect("oea+budget:k0=4", {"budget is missing"});
  expect("ser:k_min=1,t=1.5", {"t = 1.5", "0..1"});
  expect("topp:p=1.5", {"p = 1.5", "at most 1"});
  expect("exact:k0=1", {"exact has no key 'k0'", "none"});
}

TEST(BadInput, PolicyIsCheckedAgainstTheLayer) {
  const auto expect = [](const char* text, std::initializer_list<const char*> parts) {
    const std::string message = message_of([&] { validate(parse_policy(text), good_spec(), "layer 3"); });
    EXPECT_THAT(message, HasSubstr("layer 3")) << text;
    for (const char* part : parts) EXPECT_THAT(message, HasSubstr(part)) << text;
  };
  expect("oea+budget:k0=2,budget=3", {"budget = 3", "4..16"});
  expect("xshare:budget=3", {"budget = 3", "4..16"});
  expect("xshare:budget=17", {"budget = 17", "4..16"});
  expect("xshare:budget=8,top_per_token=5", {"top_per_token = 5", "0..4"});
  expect("oea:k0=3,k_max=2", {"k_max = 2", "3..16"});
  expect("oea:k0=3,k_max=17", {"k_max = 17", "3..16"});
  expect("oea:k0=3,max_rank=2", {"max_rank = 2", "3..16"});
  expect("oea:k0=3,max_rank=17", {"max_rank = 17", "3..16"});
  expect("ser:k_min=5,t=0.5", {"k_min = 5", "1..4"});
  EXPECT_THAT(message_of([] { validate(RoutingPolicy{.kind = PolicyKind::kOea}, good_spec(), "layer 3"); }),
              HasSubstr("k0 = 0"));
  EXPECT_NO_THROW(validate(parse_policy("oea:k0=8"), good_spec(), "k0 above k is exact"));
}

TEST(BadInput, TablesNameTheirEntry) {
  Placement placement = contiguous_placement(16, 3);
  EXPECT_NO_THROW(validate(placement, good_spec(), "placement"));
  placement.rank_of[5] = 3;
  EXPECT_THAT(message_of([&] { validate(placement, good_spec(), "placement"); }),
              HasSubstr("rank_of[5] = 3"));
  placement.rank_of.pop_back();
  EXPECT_THAT(message_of([&] { validate(placement, good_spec(), "placement"); }),
              HasSubstr("rank_of has 15"));
  placement.ranks = 0;
  EXPECT_THAT(message_of([&] { validate(placement, good_spec(), "placement"); }), HasSubstr("ranks = 0"));

  const auto expect = [](const std::vector<std::vector<std::int32_t>>& copies, const char* part) {
    EXPECT_THAT(message_of([&] { ReplicaTable(copies, contiguous_placement(4, 2), "replicas"); }),
                HasSubstr(part));
  };
  EXPECT_NO_THROW(ReplicaTable(std::vector<std::vector<std::int32_t>>{{0, 3}, {1}, {2}},
                               contiguous_placement(4, 2), "x"));
  expect({{0}, {}, {1}}, "expert 1 has 0 copies");
  expect({{0}, {4}}, "copy 4 of expert 1, expected 0..3");
  expect({{0}, {-1}}, "copy -1 of expert 1");
  expect({{0, 2}, {2}}, "physical expert 2");
  EXPECT_THAT(message_of([] { (void)parse_recorder_mode("all"); }), HasSubstr("per_token"));
}

}  // namespace
}  // namespace tagalong::routing
