// Golden vectors of tests/golden/routing, computed in float64 by make_golden.py from the formulas of each
// family.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>

#include "base/split_mix.h"
#include "routing/route_testing.h"

namespace tagalong::routing {
namespace {

struct GoldenCase {
  std::string name, scoring, group_score, bias, logits;
  RouterSpec spec;
  bool hash = false;
  int k0 = 0;
  int rows = 0;
  std::uint64_t seed = 0;
};

std::istream& operator>>(std::istream& in, GoldenCase& c) {
  RouterSpec& spec = c.spec;
  return in >> c.name >> c.scoring >> spec.experts >> spec.top_k >> spec.groups >> spec.topk_groups >>
         c.group_score >> spec.renormalise >> spec.scaling >> c.bias >> spec.fused_shared_experts >> c.hash >>
         c.k0 >> c.logits >> c.rows >> c.seed;
}

// The generator of make_golden.py.
std::uint64_t splitmix(std::uint64_t seed, std::uint64_t index) {
  return base::split_mix(seed * 0xd1342543de82ef95U + (index + 1) * base::kSplitMixStep);
}

float grid(std::uint64_t bits, int shift, float step, float origin) {
  return static_cast<float>(bits >> shift) * step + origin;
}

std::vector<float> make_logits(const GoldenCase& c) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const auto experts = static_cast<std::uint64_t>(c.spec.experts);
  std::vector<float> logits;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(c.rows) * experts; ++i) {
    const std::uint64_t bits = splitmix(c.seed, i);
    float l = grid(bits, 40, 0x1p-20F, -8.0F);
    if (c.logits == "ties") l = grid(bits, 60, 0.5F, -4.0F);
    if (c.logits == "low") l = grid(bits, 44, 0x1p-18F, -22.0F);
    if (c.logits == "nan" && (bits % 7 == 0 || i / experts % 5 == 0)) l = kNan;
    if (c.logits == "inf" && bits % 23 == 0) l = kInfinity;
    if (c.logits == "inf" && bits % 23 == 1) l = -kInfinity;
    logits.push_back(l);
  }
  return logits;
}

void complete_spec(GoldenCase& c) {
  RouterSpec& spec = c.spec;
  spec.scoring = parse_scoring(c.scoring).value();
  if (c.group_score == "max") spec.group_score = GroupScore::kMax;
  if (c.group_score == "sum2") spec.group_score = GroupScore::kSumOfTopTwo;
  for (int e = 0; c.bias != "none" && e < spec.experts; ++e) {
    const std::uint64_t bits = splitmix(c.seed + 1000003, static_cast<std::uint64_t>(e));
    spec.correction_bias.push_back(c.bias == "glm" ? grid(bits, 54, 0x1p-12F, 6.8125F)
                                                   : grid(bits, 48, 0x1p-16F, -0.5F));
  }
  for (int token = 0; c.hash && token < c.rows; ++token) {
    for (int j = 0; j < spec.top_k; ++j) spec.hash_table.push_back((37 * token + 11 * j) % spec.experts);
  }
}

// A weight is a score over a sum of at most k scores, times c. A score errs by 2^-21 of itself; a softmax
// that is not renormalised has in it a sum over E in 16 parts, each adding E / 16 + 4 roundings of 2^-24,
// where E <= 160: below 2^-20. The sum over the choice adds k + 4 roundings, the file one: with k <= 8 all
// stay below 2^-18 together.
constexpr double kTolerance = 0x1p-18;

std::vector<GoldenCase> read_cases(const std::string& folder) {
  std::ifstream file(folder + "cases.txt");
  std::string header;
  std::getline(file, header);
  std::vector<GoldenCase> cases;
  for (GoldenCase c; file >> c; c = GoldenCase()) {
    complete_spec(c);
    cases.push_back(c);
  }
  return cases;
}

TEST(RoutingGolden, EveryFamilyAgreesWithFloat64) {
  const std::string folder = std::string(TAGALONG_SOURCE_DIR) + "/tests/golden/routing/";
  std::ifstream answers(folder + "cases.bin", std::ios::binary);
  const std::vector<GoldenCase> cases = read_cases(folder);
  ASSERT_GT(cases.size(), 100U);
  int unchecked = 0;
  for (const GoldenCase& c : cases) {
    SCOPED_TRACE(c.name);
    validate(c.spec, c.name);
    const auto slots = static_cast<std::size_t>(c.spec.top_k + c.spec.fused_shared_experts);
    const auto rows = static_cast<std::size_t>(c.rows);
    std::vector<std::int16_t> ids(rows * slots);
    std::vector<float> weights(rows * slots);
    answers.read(reinterpret_cast<char*>(ids.data()),
                 static_cast<std::streamsize>(ids.size() * sizeof(std::int16_t)));
    answers.read(reinterpret_cast<char*>(weights.data()),
                 static_cast<std::streamsize>(weights.size() * sizeof(float)));
    ASSERT_TRUE(answers.good());

    RoutingPolicy policy;
    if (c.k0 > 0) policy = {.kind = PolicyKind::kOea, .k0 = c.k0};
    const std::vector<float> logits = make_logits(c);
    const std::vector<RowRole> roles(rows, RowRole::kDecode);
    std::vector<std::int32_t> tokens(rows);
    for (std::size_t r = 0; r < rows; ++r) tokens[r] = static_cast<std::int32_t>(r);
    for (const RouteIsa isa : {RouteIsa::kScalar, RouteIsa::kAvx2, RouteIsa::kAvx512}) {
      if (!available(isa)) continue;
      RouteScratch scratch(isa);
      RoutePlan plan;
      scratch.reserve(c.rows, c.spec, policy);
      plan.reserve(c.rows, c.spec, policy);
      route({.logits = logits, .roles = roles, .token_ids = tokens}, c.spec, policy, scratch, plan);
      ASSERT_EQ(plan.slots, static_cast<int>(slots));
      for (std::size_t r = 0; r < rows; ++r) {
        if (ids[r * slots] == -2) {
          unchecked += static_cast<int>(isa == RouteIsa::kScalar);
          continue;
        }
        for (std::size_t i = r * slots; i < (r + 1) * slots; ++i) {
          ASSERT_EQ(plan.row_ids[i], ids[i]) << "row " << r << " slot " << i % slots;
          const auto truth = static_cast<double>(weights[i]);
          ASSERT_NEAR(static_cast<double>(plan.row_weights[i]), truth, kTolerance * truth + 0x1p-126)
              << "row " << r << " slot " << i % slots;
        }
      }
    }
  }
  EXPECT_LT(unchecked, 5) << "rows too near a tie to be checked";
  EXPECT_EQ(answers.peek(), std::char_traits<char>::eof());
}

}  // namespace
}  // namespace tagalong::routing
