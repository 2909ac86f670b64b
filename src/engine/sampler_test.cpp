#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>

#include "base/error.h"

namespace tagalong::engine {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

std::int32_t pick(const std::vector<float>& logits, const SamplingParams& params, int position = 0) {
  return Sampler(static_cast<int>(logits.size())).pick(logits, params, position).id;
}

std::vector<double> softmax(const std::vector<float>& logits, double temperature) {
  const double highest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> p;
  for (const float x : logits) p.push_back(std::exp((x - highest) / temperature));
  const double total = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p) x /= total;
  return p;
}

// The tokens that may be drawn, by the definition, with everything sorted.
std::set<std::int32_t> allowed(const std::vector<float>& logits, const SamplingParams& params) {
  const std::vector<double> p = softmax(logits, params.temperature);
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(),
                   [&](std::int32_t a, std::int32_t b) { return logits[a] > logits[b]; });
  if (params.top_k > 0) ids.resize(std::min(ids.size(), static_cast<std::size_t>(params.top_k)));
  double total = 0;
  for (const std::int32_t id : ids) total += p[id];
  std::set<std::int32_t> result;
  double mass = 0;
  for (const std::int32_t id : ids) {
    if (!result.empty() && (mass >= params.top_p * total || p[id] < params.min_p * p[ids[0]])) break;
    result.insert(id);
    mass += p[id];
  }
  return result;
}

TEST(Sampler, GreedyTakesTheLowestIdOfTheHighest) {
  EXPECT_EQ(pick({1, 5, 3, 5}, {.temperature = 0}), 1);
  EXPECT_EQ(pick({-2, -1, -1}, {.temperature = 0, .top_k = 1, .top_p = 0.1F, .min_p = 1}), 1);
}

TEST(Sampler, HasADefinedOutcomeForWhatIsNotANumber) {
  EXPECT_EQ(pick({kNan, kNan, kNan}, {.temperature = 0}), 0);
  EXPECT_EQ(pick({kNan, -3, kNan}, {.temperature = 0}), 1);
  EXPECT_EQ(pick({1, kInf, kInf, kNan}, {.temperature = 0}), 1);
  for (int position = 0; position < 100; ++position) {
    EXPECT_EQ(pick({kNan, -3, -kInf}, {}, position), 1);
    EXPECT_EQ(pick({9, kInf, -kInf}, {.top_p = 0.5F}, position), 1);
    const std::int32_t id = pick({kNan, kNan}, {.min_p = 0.5F}, position);
    EXPECT_TRUE(id == 0 || id == 1);
  }
  Sampler sampler(3);
  std::vector<TokenLogprob> top(3);
  const TokenLogprob all_nan = sampler.pick(std::vector<float>{kNan, kNan, kNan}, {.temperature = 0}, 0, top);
  EXPECT_FLOAT_EQ(all_nan.logprob, -std::log(3.0F));
  sampler.pick(std::vector<float>{kInf, 0, kNan}, {}, 0, top);
  EXPECT_EQ(top[0].id, 0);
  EXPECT_EQ(top[0].logprob, 0);
  EXPECT_EQ(top[1].logprob, kLeastLogprob);
}

TEST(Sampler, DrawsAsOftenAsTheProbabilitySays) {
  const std::vector<float> logits{0, 1, 2, 0.5F, -1};
  for (const float temperature : {0.5F, 1.0F, 2.0F}) {
    const std::vector<double> p = softmax(logits, temperature);
    std::vector<int> counts(logits.size());
    constexpr int kDraws = 40000;
    Sampler sampler(5);
    for (int i = 0; i < kDraws; ++i) {
      ++counts[sampler.pick(logits, {.temperature = temperature, .seed = 7}, i).id];
    }
    for (std::size_t id = 0; id < p.size(); ++id) {
      // Five standard deviations of a binomial count.
      EXPECT_NEAR(counts[id], kDraws * p[id], 5 * std::sqrt(kDraws * p[id] * (1 - p[id]))) << id;
    }
  }
}

TEST(Sampler, SeedsAndPositionsAreIndependentDraws) {
  const std::vector<float> flat(2, 0.0F);
  int equal = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    equal += pick(flat, {.seed = seed}, 3) == pick(flat, {.seed = seed + 1}, 3) ? 1 : 0;
    equal += pick(flat, {.seed = seed}, 3) == pick(flat, {.seed = seed}, 4) ? 1 : 0;
  }
  EXPECT_NEAR(equal, 2000, 5 * std::sqrt(4000 * 0.25));
}

TEST(Sampler, DependsOnNothingThatCameBefore) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 3);
  Sampler used(200);
  for (int i = 0; i < 300; ++i) {
    std::vector<float> logits(200);
    for (float& x : logits) x = normal(random);
    const SamplingParams params{.temperature = static_cast<float>(i % 4) * 0.5F,
                                .top_k = i % 3 * 10,
                                .top_p = i % 5 == 0 ? 1 : 0.7F,
                                .min_p = i % 7 == 0 ? 0.05F : 0,
                                .seed = random()};
    const TokenLogprob a = used.pick(logits, params, i);
    const TokenLogprob b = Sampler(200).pick(logits, params, i);
    EXPECT_EQ(a.id, b.id);
    EXPECT_EQ(a.logprob, b.logprob);
  }
}

TEST(Sampler, FiltersKeepWhatTheirDefinitionKeeps) {
  std::mt19937 random(2);
  for (int round = 0; round < 400; ++round) {
    const int vocab = 1 + static_cast<int>(random() % 12);
    const float spread = static_cast<float>(random() % 4);
    std::vector<float> logits(static_cast<std::size_t>(vocab));
    // Multiples of a quarter: ties are common, and no cut falls on a rounding error.
    for (float& x : logits) x = static_cast<float>(random() % 9) * 0.25F * spread;
    const SamplingParams params{
        .temperature = 0.5F + static_cast<float>(random() % 3) * 0.5F,
        .top_k = static_cast<int>(random() % 5),
        .top_p = random() % 2 == 0 ? 1 : 0.11F + 0.2F * static_cast<float>(random() % 5),
        .min_p = random() % 2 == 0 ? 0 : 0.07F * static_cast<float>(random() % 5),
        .seed = random()};
    const std::set<std::int32_t> expected = allowed(logits, params);
    const std::vector<double> p = softmax(logits, params.temperature);
    std::set<std::int32_t> drawn;
    Sampler sampler(vocab);
    for (int i = 0; i < 1000; ++i) drawn.insert(sampler.pick(logits, params, i).id);
    for (const std::int32_t id : drawn)
      EXPECT_TRUE(expected.contains(id)) << "round " << round << " id " << id;
    for (const std::int32_t id : expected) {
      // With this probability it is missed by all draws once in 10^8 times.
      if (p[id] > 0.02) {
        EXPECT_TRUE(drawn.contains(id)) << "round " << round << " id " << id;
      }
    }
  }
}

// The nucleus of a large vocabulary is found without sorting it all; every cut must fall as if it were
// sorted.
TEST(Sampler, FindsTheNucleusOfALargeVocabulary) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> logits(5000);
  for (float& x : logits) x = normal(random);
  Sampler sampler(5000);
  for (const float top_p : {0.001F, 0.1F, 0.5F, 0.9F, 0.99F}) {
    for (const int top_k : {0, 100}) {
      const SamplingParams params{.top_k = top_k, .top_p = top_p, .seed = 4};
      const std::set<std::int32_t> expected = allowed(logits, params);
      double outside = 0;
      std::set<std::int32_t> drawn;
      for (int i = 0; i < 500; ++i) {
        const std::int32_t id = sampler.pick(logits, params, i).id;
        drawn.insert(id);
        if (!expected.contains(id)) ++outside;
      }
      EXPECT_EQ(outside, 0) << top_p << " " << top_k;
      EXPECT_GE(drawn.size(), std::min<std::size_t>(expected.size(), 100) / 2) << top_p << " " << top_k;
    }
  }
}

TEST(Sampler, LogprobsAreThoseOfTheModel) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0, 4);
  std::vector<float> logits(300);
  for (float& x : logits) x = normal(random);
  logits[250] = logits[17] = *std::max_element(logits.begin(), logits.end()) + 1;
  const std::vector<double> p = softmax(logits, 1);
  std::vector<TokenLogprob> top(kMaxTopLogprobs);
  Sampler sampler(300);
  const TokenLogprob token = sampler.pick(logits, {.temperature = 3, .top_k = 5, .seed = 1}, 0, top);
  // exp is good to about 2 ulp and the sum is in double.
  EXPECT_NEAR(token.logprob, std::log(p[token.id]), 1e-5);
  EXPECT_EQ(top[0].id, 17);
  EXPECT_EQ(top[1].id, 250);
  for (std::size_t i = 0; i < top.size(); ++i) {
    EXPECT_NEAR(top[i].logprob, std::log(p[top[i].id]), 1e-5);
    const auto likelier = std::count_if(p.begin(), p.end(), [&](double x) { return x > p[top[i].id]; });
    EXPECT_EQ(likelier, i < 2 ? 0 : static_cast<int>(i));
  }
}

TEST(SamplingParams, NamesTheFieldTheValueAndTheRange) {
  const auto message = [](const SamplingParams& params) -> std::string {
    try {
      validate(params);
    } catch (const base::InputError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message({}), "");
  EXPECT_EQ(message({.temperature = 0, .top_k = 1 << 30, .top_p = 1e-6F, .min_p = 1}), "");
  EXPECT_EQ(message({.temperature = -1}), "temperature is -1, expected a finite number of at least 0");
  EXPECT_EQ(message({.temperature = kNan}), "temperature is nan, expected a finite number of at least 0");
  EXPECT_EQ(message({.temperature = kInf}), "temperature is inf, expected a finite number of at least 0");
  EXPECT_EQ(message({.top_k = -1}), "top_k is -1, expected 0 (off) or more");
  EXPECT_EQ(message({.top_p = 0}), "top_p is 0, expected more than 0 and at most 1");
  EXPECT_EQ(message({.top_p = 1.5F}), "top_p is 1.5, expected more than 0 and at most 1");
  EXPECT_EQ(message({.top_p = kNan}), "top_p is nan, expected more than 0 and at most 1");
  EXPECT_EQ(message({.min_p = -0.5F}), "min_p is -0.5, expected 0 to 1");
}

}  // namespace
}  // namespace tagalong::engine
