#include "route_replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "base/error.h"
#include "routing/recorder.h"

namespace tagalong::tools {
namespace {

using testing::HasSubstr;

RouteTrace made_up() {
  return read_route_trace(std::filesystem::path(TAGALONG_SOURCE_DIR) /
                          "tests/data/routing/made_up_trace.jsonl");
}

// Expected numbers: counted from the file by a few lines of Python, apart from this code.
TEST(RouteReplay, CountsWhatTheTraceHolds) {
  struct Expected {
    const char* policy;
    double experts, mass, replaced;
  };
  const RouteTrace trace = made_up();
  for (const Expected& e :
       {Expected{"exact", 13.75, 1.0, 0.0}, Expected{"pruned:k0=2", 8.5, 0.71245246, 2.0},
        Expected{"oea:k0=3", 11.5, 0.95479052, 21.0 / 54}, Expected{"oea:k0=2", 8.5, 0.85148771, 56.0 / 54},
        Expected{"oea:k0=1", 5.0, 0.65053825, 111.0 / 54}}) {
    const ReplayResult result = replay(trace, routing::parse_policy(e.policy), 1);
    EXPECT_EQ(result.policy, e.policy);
    EXPECT_EQ(result.all.steps, 8);
    EXPECT_DOUBLE_EQ(result.all.per_step(result.all.experts_exact), 13.75);
    EXPECT_DOUBLE_EQ(result.all.per_step(result.all.experts), e.experts) << e.policy;
    // Recorded to four digits and put through a sigmoid and its inverse in fp32.
    EXPECT_NEAR(result.all.per_row(result.all.kept_mass), e.mass, 1e-6) << e.policy;
    EXPECT_DOUBLE_EQ(result.all.per_row(static_cast<double>(result.all.replaced_slots)), e.replaced)
        << e.policy;
  }
}

TEST(RouteReplay, DealsRowsAnew) {
  const RouteTrace trace = made_up();
  const ReplayResult result = replay(trace.in_steps_of(5), routing::parse_policy("exact"), 4);
  EXPECT_EQ(result.all.steps, 10);
  EXPECT_EQ(result.by_rows.size(), 1U);
  EXPECT_EQ(result.by_rows.at(5).decode_rows, 50);
  EXPECT_GE(result.all.fullest_rank * 4, result.all.experts);
  EXPECT_LE(result.all.fullest_rank, result.all.experts);
}

TEST(RouteReplay, ReadsWhatTheRecorderWrites) {
  routing::RouterSpec spec;
  spec.scoring = routing::Scoring::kSigmoid;
  spec.experts = 6;
  spec.top_k = 2;
  spec.scaling = 2.5F;
  spec.fused_shared_experts = 1;
  const std::vector<float> logits = {3, 2, 1, 0, 0, 0, 0, 0, 3, 2, 0, 0, 0, 0, 0, 0, 5, 4};
  const std::vector<routing::RowRole> roles = {routing::RowRole::kDecode, routing::RowRole::kPadding,
                                               routing::RowRole::kPrefill};
  routing::RouteScratch scratch;
  routing::RoutePlan plan;
  scratch.reserve(3, spec);
  plan.reserve(3, spec);
  route(logits, spec, {}, roles, scratch, plan);
  std::stringstream file;
  routing::Recorder recorder(routing::RecorderMode::kPerToken, "m", {}, spec, 1, file);
  recorder.record(0, 0, plan, roles);

  const RouteTrace trace = read_route_trace(file, "recorded");
  ASSERT_EQ(trace.steps.size(), 1U);
  EXPECT_EQ(trace.steps[0].roles,
            (std::vector<routing::RowRole>{routing::RowRole::kDecode, routing::RowRole::kPrefill}));
  const ReplayResult again = replay(trace, {}, 1);
  EXPECT_EQ(again.all.experts, plan.stats.experts);
  EXPECT_EQ(again.all.decode_rows, 1);
}

TEST(RouteReplay, FullScoresKnowWhatLiesBeyondTheChoice) {
  std::stringstream file(R"({"n_experts": 4, "top_k": 2, "scoring": "softmax", "renormalise": true}
{"logits": [[4, 3, 1, 2], [1, 0, 2, 3]]})");
  const RouteTrace trace = read_route_trace(file, "scores");
  EXPECT_TRUE(trace.full_scores);
  const ReplayResult result = replay(trace, routing::parse_policy("oea:k0=1"), 1);
  EXPECT_EQ(result.all.experts_exact, 4);
  EXPECT_EQ(result.all.experts, 2);
  // Rows trade e^3 for e^2, and e^2 for e^1, beside the e^4 and e^3 they keep.
  EXPECT_NEAR(result.all.per_row(result.all.kept_mass), (1 + std::exp(-2.0)) / (1 + std::exp(-1.0)), 1e-6);
}

// Weights alone would rank expert 3 before 2; where the record says so, its order counts.
TEST(RouteReplay, KeepsARecordedOrder) {
  const std::string step = R"({"ids": [[2, 3], [0, 1]], "w": [[0.2, 0.7], [0.6, 0.3]]})";
  for (const bool ranked : {false, true}) {
    std::stringstream file(R"({"n_experts": 4, "top_k": 2, "ranked": )" +
                           std::string(ranked ? "true" : "false") + "}\n" + step);
    const RouteTrace trace = read_route_trace(file, "t");
    for (const RouteTrace& steps : {trace, trace.in_steps_of(2)}) {
      const ReplayResult result = replay(steps, routing::parse_policy("pruned:k0=1"), 1);
      EXPECT_NEAR(result.all.per_row(result.all.kept_mass), (0.6 + (ranked ? 0.2 : 0.7)) / 1.8, 1e-6);
    }
  }
}

TEST(RouteReplay, BadLinesAreNamed) {
  const auto expect = [](std::string_view lines, std::initializer_list<const char*> parts) {
    std::stringstream file{std::string(lines)};
    try {
      read_route_trace(file, "t.jsonl");
      ADD_FAILURE() << "accepted: " << lines;
    } catch (const base::InputError& error) {
      for (const char* part : parts) EXPECT_THAT(error.what(), HasSubstr(part));
    }
  };
  const std::string head = "{\"n_experts\":8,\"top_k\":2}\n";
  expect("", {"t.jsonl", "no rows"});
  expect(head, {"no rows"});
  expect("[1]\n", {"t.jsonl:1", "header"});
  expect("{\"top_k\":2}\n", {"t.jsonl:1", "n_experts is missing"});
  expect("{\"n_experts\":8,\"top_k\":9}\n", {"top_k = 9", "1..8"});
  expect("{\"n_experts\":8,\"top_k\":2,\"scoring\":\"best\"}\n", {"scoring = \"best\""});
  expect("{\"n_experts\":8,\"top_k\":2,\"scaling\":0}\n", {"scaling = 0"});
  expect("{\"n_experts\":8,\"top_k\":2,\"ranked\":1}\n", {"ranked = 1", "true or false"});
  expect("{\"n_experts\":8,\"top_k\":2,\"mode\":\"stat\"}\n", {"mode = \"stat\"", "per_token"});
  expect(head + "{\"ids\":[[0,1]],\"w\":[[0.5,0.2]]\n", {"t.jsonl:2", "not JSON"});
  expect(head + "7\n", {"t.jsonl:2", "object"});
  expect(head + "{\"ids\":[[0,1]]}\n", {"t.jsonl:2", "w is missing"});
  expect(head + "{\"ids\":[[0,8]],\"w\":[[0.5,0.2]]}\n", {"row 0", "ids[1] = 8", "0..7"});
  expect(head + "{\"ids\":[[0,-1]],\"w\":[[0.5,0.2]]}\n", {"ids[1] = -1"});
  expect(head + "{\"ids\":[[0,1.5]],\"w\":[[0.5,0.2]]}\n", {"ids[1] = 1.5"});
  expect(head + "{\"ids\":[[3,3]],\"w\":[[0.5,0.2]]}\n", {"ids[1] = 3 twice"});
  expect(head + "{\"ids\":[[0,1]],\"w\":[[0.5,-0.2]]}\n", {"w[1] = -0.2"});
  expect(head + "{\"ids\":[[0,1]],\"w\":[[0.5,\"x\"]]}\n", {"w holds \"x\""});
  expect(head + "{\"ids\":[[0,1]],\"w\":[[0.5]]}\n", {"row 0", "length"});
  expect(head + "{\"ids\":[[0,1],[1,2]],\"w\":[[0.5,0.2]]}\n", {"ids has 2 rows, w has 1"});
  expect(head + "{\"ids\":[[0,1]],\"w\":[[0.5,0.2]],\"decode\":[1,0]}\n", {"decode has 2"});
  expect(head + "{\"logits\":[[0,1,2]]}\n", {"logits holds 3", "n_experts = 8"});
  expect(head + "{\"ids\":[0,1],\"w\":[0.5,0.2]}\n{\"logits\":[]}\n", {"t.jsonl:3", "mixed"});
  expect(head + "{\"layer\":-1,\"ids\":[0,1],\"w\":[0.5,0.2]}\n", {"layer = -1", "0..1048575"});
  expect(head + "{\"layer\":9e9,\"ids\":[0,1],\"w\":[0.5,0.2]}\n", {"layer = 9000000000.0"});
  expect(head + "{\"layer\":4294967296,\"ids\":[0,1],\"w\":[0.5,0.2]}\n", {"layer = 4294967296"});
  expect("{\"n_experts\":8,\"top_k\":2,\"scaling\":1e9}\n", {"scaling = 1000000000", "at most 1e6"});
  // As deep as no message may follow it.
  const std::string deep = std::string(1 << 20, '[') + std::string(1 << 20, ']');
  expect(head + "{\"ids\":[[0,1]],\"w\":[[0.5," + deep + "]]}\n", {"w holds a list"});
}

}  // namespace
}  // namespace tagalong::tools
