#include "route_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "base/error.h"
#include "route_replay.h"

namespace tagalong::tools {
namespace {

using testing::HasSubstr;

RouteTrace draw(const std::string& text, const ShapeDraw& options) {
  std::stringstream file(text);
  return draw_from_shape(file, "shape.json", options);
}

// With top-1 an expert is drawn by its share of the tokens: 3 of 4, within four standard deviations of 8192
// draws.
TEST(RouteShape, DrawsExpertsByTheirTokens) {
  const RouteTrace trace = draw(R"({"logical_count": [[0, 0, 0], [3, 0, 1]]})", {.top_k = 1, .rows = 128});
  EXPECT_EQ(trace.experts, 3);
  ASSERT_EQ(trace.steps.size(), 64U);
  int first = 0;
  for (const TraceStep& step : trace.steps) {
    EXPECT_EQ(step.layer, 1) << "layer 0 has no tokens";
    for (std::size_t row = 0; row < 128; ++row) {
      EXPECT_EQ(step.logits[3 * row + 1], -std::numeric_limits<float>::infinity());
      first += step.logits[3 * row] > step.logits[3 * row + 2] ? 1 : 0;
    }
  }
  EXPECT_NEAR(first, 0.75 * 8192, 4 * std::sqrt(0.75 * 0.25 * 8192));
}

// Three quarters of the logits between 0 and 1, the rest between 1 and 5.
TEST(RouteShape, DrawsLogitsByTheirDistribution) {
  const RouteTrace trace = draw(R"({"model": "m", "layers": {"0": {"x": [0, 1, 5], "cdf": [0, 1.5, 2]}}})",
                                {.top_k = 2, .experts = 64, .rows = 4, .steps = 32});
  ASSERT_EQ(trace.steps.size(), 32U);
  EXPECT_EQ(trace.model, "m");
  double below = 0;
  double sum = 0;
  for (const TraceStep& step : trace.steps) {
    for (const float l : step.logits) {
      ASSERT_TRUE(l >= 0.0F && l <= 5.0F);
      below += l < 1.0F ? 1 : 0;
      sum += static_cast<double>(l);
    }
  }
  EXPECT_NEAR(below, 0.75 * 8192, 4 * std::sqrt(0.75 * 0.25 * 8192));
  EXPECT_NEAR(sum / 8192, 0.75 * 0.5 + 0.25 * 3, 4 * 1.3 / std::sqrt(8192.0));  // the deviation is below 1.3
  const ReplayResult result = replay(trace, routing::parse_policy("oea:k0=1"), 1);
  EXPECT_LT(result.all.experts, result.all.experts_exact);
}

TEST(RouteShape, TheSeedDecides) {
  const std::string shape = R"({"logical_count": [[1, 2, 3, 4]]})";
  EXPECT_EQ(draw(shape, {.top_k = 2, .seed = 3}).steps[5].logits,
            draw(shape, {.top_k = 2, .seed = 3}).steps[5].logits);
  EXPECT_NE(draw(shape, {.top_k = 2, .seed = 3}).steps[5].logits,
            draw(shape, {.top_k = 2, .seed = 4}).steps[5].logits);
}

TEST(RouteShape, BadShapesAreNamed) {
  const auto expect = [](const char* text, std::initializer_list<const char*> parts, int experts = 8) {
    try {
      draw(text, {.top_k = 2, .experts = experts});
      ADD_FAILURE() << "accepted: " << text;
    } catch (const base::InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr("shape.json"));
      for (const char* part : parts) EXPECT_THAT(error.what(), HasSubstr(part));
    }
  };
  expect("[", {"not a JSON object"});
  expect("{}", {"neither layers nor logical_count"});
  expect(R"({"layers": {"0": {"x": [0], "cdf": [1]}}})", {"--experts"}, 0);
  expect(R"({"layers": {"1": {"x": [0], "cdf": [1]}}})", {"layers.0 is missing"});
  expect(R"({"layers": {"0": {"x": [0]}}})", {"layers.0", "x and cdf"});
  expect(R"({"layers": {"0": {"x": [0, 1], "cdf": [1]}}})", {"x has 2 values, cdf has 1"});
  expect(R"({"layers": {"0": {"x": [1, 0], "cdf": [0, 1]}}})", {"rising"});
  expect(R"({"layers": {"0": {"x": [0, 1], "cdf": [0, 0]}}})", {"cdf", "ends with 0"});
  expect(R"({"layers": {"0": {"x": [0, "a"], "cdf": [0, 1]}}})", {"layers.0.x[1]", "number"});
  expect(R"({"layers": []})", {"layers: expected an object"});
  expect(R"({"logical_count": [[1, 2], [1]]})", {"logical_count[1]: 1 experts, expected 2"});
  expect(R"({"logical_count": [[1, -2]]})", {"logical_count[0][1]", "from 0"});
  expect(R"({"logical_count": [[0, 0]]})", {"no layer with tokens"});
  expect(R"({"logical_count": 3})", {"logical_count: expected a list"});
}

}  // namespace
}  // namespace tagalong::tools
