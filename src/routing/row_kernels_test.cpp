#include "routing/row_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "routing/expert_set.h"
#include "routing/order_code.h"
#include "routing/route_testing.h"

namespace tagalong::routing {
namespace {

constexpr Scoring kScorings[] = {Scoring::kSoftmax, Scoring::kSigmoid, Scoring::kSqrtSoftplus,
                                 Scoring::kTopKThenSoftmax, Scoring::kSigmoidInput};

std::vector<const RowKernels*> vector_kernels() {
  std::vector<const RowKernels*> tables;
  for (const RouteIsa isa : {RouteIsa::kAvx2, RouteIsa::kAvx512}) {
    if (available(isa)) tables.push_back(&row_kernels(isa));
  }
  return tables;
}

std::size_t padded(int n) { return static_cast<std::size_t>((n + kCodeAlign - 1) / kCodeAlign * kCodeAlign); }

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Odd lengths first: every remainder of both vector widths, and the largest E of the field.
std::vector<int> lengths() {
  std::vector<int> lengths(80);
  std::iota(lengths.begin(), lengths.end(), 1);
  for (const int n : {127, 128, 160, 255, 256, 257, 384, 500, 512, 1000, 4096}) lengths.push_back(n);
  return lengths;
}

TEST(RowKernels, EveryInstructionSetScoresAndRanksAlike) {
  const RowKernels& scalar = row_kernels(RouteIsa::kScalar);
  ProblemMaker maker(20);
  for (const RowKernels* kernels : vector_kernels()) {
    for (const int n : lengths()) {
      for (int repeat = 0; repeat < 12; ++repeat) {
        const std::vector<float> logits = maker.row(n);
        std::vector<float> bias(logits.size());
        for (float& b : bias) b = maker.normal(6.9F, 0.1F);
        const RowNorm norm = scalar.softmax_norm(logits.data(), n);
        const RowNorm other = kernels->softmax_norm(logits.data(), n);
        ASSERT_EQ(norm.largest, other.largest) << kernels->name << " n " << n;
        ASSERT_EQ(std::bit_cast<std::uint32_t>(norm.sum), std::bit_cast<std::uint32_t>(other.sum))
            << kernels->name;
        for (const Scoring scoring : kScorings) {
          std::vector<float> expected(logits.size() + 1, -7.0F);
          std::vector<float> found(logits.size() + 1, -7.0F);
          scalar.scores(scoring, logits.data(), n, norm, expected.data());
          kernels->scores(scoring, logits.data(), n, norm, found.data());
          ASSERT_TRUE(same_bits(expected, found)) << kernels->name << " n " << n;
          for (const float* b :
               {static_cast<const float*>(nullptr), static_cast<const float*>(bias.data())}) {
            std::vector<std::uint32_t> expected_codes(padded(n), 77);
            std::vector<std::uint32_t> codes(padded(n), 99);
            ASSERT_EQ(scalar.codes(scoring, logits.data(), b, n, norm, expected_codes.data()),
                      kernels->codes(scoring, logits.data(), b, n, norm, codes.data()));
            ASSERT_EQ(expected_codes, codes) << kernels->name << " n " << n;
          }
        }
      }
    }
  }
}

// Where e^-|l| turns denormal, and then 0, and where one logit of an otherwise usual row is not: the bias of
// 0 leaves every bit of the score in the key.
TEST(RowKernels, KeysAgreeWhereExponentialsGetSmall) {
  const RowKernels& scalar = row_kernels(RouteIsa::kScalar);
  ProblemMaker maker(22);
  for (const RowKernels* kernels : vector_kernels()) {
    for (const int n : {7, 8, 16, 24, 64, 72, 128, 160, 256, 257, 384}) {
      for (int repeat = 0; repeat < 60; ++repeat) {
        std::vector<float> logits(static_cast<std::size_t>(n));
        const float centre = repeat % 2 == 0 ? 84.0F : 0.0F;
        for (float& l : logits) {
          l = (centre + static_cast<float>(maker.below(4096)) / 512.0F) * (maker.one_in(2) ? 1.0F : -1.0F);
        }
        constexpr float kOutliers[] = {-85.9999F,
                                       -86.0F,
                                       -86.0001F,
                                       -87.5F,
                                       -88.8F,
                                       -103.9F,
                                       -104.1F,
                                       -1e30F,
                                       99.0F,
                                       -std::numeric_limits<float>::infinity(),
                                       std::numeric_limits<float>::quiet_NaN()};
        if (repeat % 3 > 0) {
          logits[static_cast<std::size_t>(maker.below(n))] =
              kOutliers[static_cast<std::size_t>(maker.below(static_cast<int>(std::size(kOutliers))))];
        }
        const std::vector<float> bias(logits.size(), 0.0F);
        for (const Scoring scoring : {Scoring::kSigmoid, Scoring::kSqrtSoftplus}) {
          std::vector<std::uint32_t> expected(padded(n), 77);
          std::vector<std::uint32_t> codes(padded(n), 99);
          ASSERT_EQ(scalar.codes(scoring, logits.data(), bias.data(), n, {}, expected.data()),
                    kernels->codes(scoring, logits.data(), bias.data(), n, {}, codes.data()));
          ASSERT_EQ(expected, codes) << kernels->name << " n " << n;
        }
      }
    }
  }
}

std::vector<int> sorted_top_k(const std::vector<std::uint32_t>& codes,
                              const std::vector<std::uint64_t>& allowed, int k) {
  std::vector<int> ids;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    if (codes[i] != kMaskedCode && (allowed.empty() || contains(allowed, static_cast<int>(i)))) {
      ids.push_back(static_cast<int>(i));
    }
  }
  std::ranges::stable_sort(ids, [&](int a, int b) {
    return codes[static_cast<std::size_t>(a)] > codes[static_cast<std::size_t>(b)];
  });
  if (ids.size() > static_cast<std::size_t>(k)) ids.resize(static_cast<std::size_t>(k));
  return ids;
}

TEST(RowKernels, TopKIsTheHeadOfAStableSort) {
  std::vector<const RowKernels*> tables = vector_kernels();
  tables.push_back(&row_kernels(RouteIsa::kScalar));
  ProblemMaker maker(21);
  for (const int n : lengths()) {
    for (int repeat = 0; repeat < 20; ++repeat) {
      // From all codes equal to all different, with masked ones among them.
      const int values = 1 << maker.below(14);
      std::vector<std::uint32_t> codes(padded(n), kMaskedCode);
      for (int i = 0; i < n; ++i) {
        codes[static_cast<std::size_t>(i)] =
            maker.one_in(9) ? kMaskedCode : 0xffff0000U + static_cast<std::uint32_t>(maker.below(values));
      }
      std::vector<std::uint64_t> allowed;
      if (repeat % 2 == 1) {
        allowed.resize(expert_set_words(n));
        for (int i = 0; i < n; ++i) {
          if (!maker.one_in(3)) insert(allowed, i);
        }
      }
      for (const int k : {1, 2, 6, 8, 11, 12, 13, 16, 32, 48, 49, 64}) {
        const std::vector<int> expected = sorted_top_k(codes, allowed, k);
        for (const RowKernels* kernels : tables) {
          std::vector<std::int32_t> found(static_cast<std::size_t>(k), -1);
          const int count =
              kernels->top_k(codes.data(), n, allowed.empty() ? nullptr : allowed.data(), k, found.data());
          found.resize(static_cast<std::size_t>(count));
          ASSERT_EQ(std::vector<int>(found.begin(), found.end()), expected)
              << kernels->name << " n " << n << " k " << k << " values " << values;
        }
      }
    }
  }
}

// |found - truth| <= 2^-21 |truth| + 2^-149, the bound derived in gate_math-inl.h.
void expect_close(float found, double truth, double logit, const char* what) {
  EXPECT_LE(std::abs(static_cast<double>(found) - truth), 0x1p-21 * truth + 0x1p-149)
      << what << " of " << logit << ": " << found << " for " << truth;
}

TEST(RowKernels, ScoresKeepTheirErrorBound) {
  const RowKernels& kernels = row_kernels(RouteIsa::kBest);
  std::vector<float> logits;
  for (int i = -120 * 512; i <= 120 * 512; ++i) logits.push_back(static_cast<float>(i) / 512.0F + 0.0003F);
  for (float l = 1e-30F; l < 1e30F; l *= 1.7F) logits.insert(logits.end(), {l, -l});
  std::vector<float> scores(logits.size());
  const auto n = static_cast<int>(logits.size());
  kernels.scores(Scoring::kSigmoid, logits.data(), n, {}, scores.data());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const auto l = static_cast<double>(logits[i]);
    expect_close(scores[i], l < 0 ? std::exp(l) / (1 + std::exp(l)) : 1 / (1 + std::exp(-l)), l, "sigmoid");
  }
  kernels.scores(Scoring::kSqrtSoftplus, logits.data(), n, {}, scores.data());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const auto l = static_cast<double>(logits[i]);
    // Where e^l is a denormal its own rounding, up to 2^-150, dominates: the root of a sum of that size is
    // compared through its square.
    const double truth = std::max(l, 0.0) + std::log1p(std::exp(-std::abs(l)));
    if (truth < 0x1p-120) {
      EXPECT_NEAR(static_cast<double>(scores[i]) * static_cast<double>(scores[i]), truth,
                  0x1p-20 * truth + 0x1p-148);
    } else {
      expect_close(scores[i], std::sqrt(truth), l, "sqrtsoftplus");
    }
  }
  const RowNorm zero{.largest = 0.0F, .sum = 1.0F};
  std::erase_if(logits, [](float l) { return l > 0.0F; });
  kernels.scores(Scoring::kTopKThenSoftmax, logits.data(), static_cast<int>(logits.size()), zero,
                 scores.data());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    expect_close(scores[i], std::exp(static_cast<double>(logits[i])), static_cast<double>(logits[i]), "exp");
  }
}

TEST(RowKernels, LimitsAreFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> logits = {kInfinity, -kInfinity, nan, kInfinity, 0.0F};
  std::vector<float> scores(logits.size());
  for (const RouteIsa isa : {RouteIsa::kScalar, RouteIsa::kBest}) {
    const RowKernels& kernels = row_kernels(isa);
    const RowNorm norm = kernels.softmax_norm(logits.data(), 5);
    kernels.scores(Scoring::kSoftmax, logits.data(), 5, norm, scores.data());
    EXPECT_EQ(scores, (std::vector<float>{0.5F, 0.0F, 0.0F, 0.5F, 0.0F}));
    kernels.scores(Scoring::kSigmoid, logits.data(), 5, norm, scores.data());
    EXPECT_EQ(scores, (std::vector<float>{1.0F, 0.0F, 0.0F, 1.0F, 0.5F}));
    kernels.scores(Scoring::kSqrtSoftplus, logits.data(), 5, norm, scores.data());
    EXPECT_GT(scores[0], 1e19F);
    EXPECT_TRUE(std::isfinite(scores[0]));
    EXPECT_EQ(scores[1], 0.0F);
    const std::vector<float> nans(5, nan);
    EXPECT_EQ(kernels.softmax_norm(nans.data(), 5).sum, 1.0F);
  }
}

TEST(OrderCode, RanksLikeNumbersWithNanLast) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> ascending = {-kInfinity, -1e38F, -1.0F, -1e-42F,  0.0F,
                                        1e-42F,     1.0F,   1e38F, kInfinity};
  EXPECT_LT(kMaskedCode, order_code(std::numeric_limits<float>::quiet_NaN()));
  EXPECT_LT(order_code(-std::numeric_limits<float>::quiet_NaN()), order_code(-kInfinity));
  EXPECT_EQ(order_code(-0.0F), order_code(0.0F));
  for (std::size_t i = 0; i < ascending.size(); ++i) {
    EXPECT_EQ(key_of(order_code(ascending[i])), ascending[i]);
    if (i > 0) {
      EXPECT_LT(order_code(ascending[i - 1]), order_code(ascending[i]));
    }
  }
}

}  // namespace
}  // namespace tagalong::routing
