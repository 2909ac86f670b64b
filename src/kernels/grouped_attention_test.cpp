// Grouped-query attention: every table against scalar bit for bit, scalar against softmax in double, and the
// bits of a row whatever its neighbours.
#include "kernels/grouped_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/select.h"
#include "kernels/tables.h"
#include "tensor/formats/bf16.h"
#include "tensor/formats/fp8.h"

namespace tagalong::kernels {
namespace {

struct Shape {
  int heads;
  int dim;
  CacheFormat format;
};

// The sums of some rows, one after the other: largest and sum of each head, then out.
using Sums = std::vector<float>;

// A cache of three key/value heads with scattered slots, of which the middle one is attended to.
class Cache {
 public:
  Cache(const Shape& shape, int positions) : shape_(shape) {
    const int slots = positions * 2 + 3;
    std::mt19937 random(static_cast<std::uint32_t>(shape.dim + positions));
    std::normal_distribution<float> normal;
    values_.resize(2 * static_cast<std::size_t>(slots * 3 * shape.dim));
    const std::size_t width = shape.format == CacheFormat::kF32    ? 4
                              : shape.format == CacheFormat::kBF16 ? 2
                                                                   : 1;
    bytes_.resize(values_.size() * width);
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const float value = normal(random);
      if (shape.format == CacheFormat::kF32) {
        values_[i] = value;
        std::memcpy(&bytes_[i * width], &value, width);
      } else if (shape.format == CacheFormat::kBF16) {
        const std::uint16_t bits = tensor::float_to_bf16(value);
        values_[i] = tensor::bf16_to_float(bits);
        std::memcpy(&bytes_[i * width], &bits, width);
      } else {
        const std::uint8_t bits = tensor::float_to_e4m3(value);
        values_[i] = tensor::e4m3_to_float(bits);
        bytes_[i] = static_cast<std::byte>(bits);
      }
    }
    stride_ = static_cast<std::size_t>(3 * shape.dim) * width;
    head_ = static_cast<std::size_t>(shape.dim) * width;
    second_ = bytes_.size() / 2;
    for (int t = 0; t < positions; ++t) slots_.push_back((t * 5 + 2) % slots);
  }

  double key(int t, int i) const { return values_[index(t, i)]; }
  double value(int t, int i) const { return values_[values_.size() / 2 + index(t, i)]; }
  void set_key(int t, int i, float value) {
    ASSERT_EQ(shape_.format, CacheFormat::kF32);
    std::memcpy(&bytes_[index(t, i) * 4], &value, 4);
  }

  // `first`: the position with which the part begins.
  Sums attend(const Kernels& kernels, const std::vector<std::vector<float>>& queries,
              const std::vector<int>& counts, int first = 0) const {
    const auto heads = static_cast<std::size_t>(shape_.heads);
    const std::size_t width = heads * static_cast<std::size_t>(shape_.dim + 2);
    Sums sums(queries.size() * width, -7.0F);
    std::vector<float> scratch(grouped_attention_scratch(shape_.heads));
    GroupedAttention call{};
    call.rows = static_cast<int>(queries.size());
    for (std::size_t r = 0; r < queries.size(); ++r) {
      call.queries[r] = queries[r].data();
      call.counts[r] = counts[r];
      float* at = sums.data() + r * width;
      call.sums[r] = {.largest = at, .sum = at + heads, .out = at + 2 * heads};
    }
    call.heads = shape_.heads;
    call.dim = shape_.dim;
    call.keys = bytes_.data() + head_;
    call.values = bytes_.data() + second_ + head_;
    call.stride = stride_;
    call.format = shape_.format;
    call.slots = slots_.data() + first;
    call.scale = 0.125F;
    call.scratch = scratch.data();
    kernels.grouped_attention(call);
    return sums;
  }

 private:
  std::size_t index(int t, int i) const {
    return static_cast<std::size_t>((slots_[static_cast<std::size_t>(t)] * 3 + 1) * shape_.dim + i);
  }

  Shape shape_;
  std::vector<float> values_;  // keys, then values: [2][slots, 3, dim]
  std::vector<std::byte> bytes_;
  std::size_t stride_ = 0;
  std::size_t head_ = 0;
  std::size_t second_ = 0;
  std::vector<std::int32_t> slots_;
};

std::vector<std::vector<float>> random_queries(const Shape& shape, int rows) {
  std::mt19937 random(17);
  std::normal_distribution<float> normal(0.0F, 2.0F);
  std::vector<std::vector<float>> queries(static_cast<std::size_t>(rows));
  for (auto& query : queries) {
    query.resize(static_cast<std::size_t>(shape.heads * shape.dim));
    for (float& v : query) v = normal(random);
  }
  return queries;
}

bool same_bits(const Sums& a, const Sums& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    // The payload of a NaN is nobody's promise.
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i])) return false;
  }
  return true;
}

TEST(Invariance, GroupedAttentionHasTheBitsOfScalar) {
  for (const CacheFormat format : {CacheFormat::kF32, CacheFormat::kBF16, CacheFormat::kF8}) {
    for (const int heads : {1, 2, 3, 7, 8, 16}) {
      for (const int dim : {16, 48, 128}) {
        for (const int count : {1, 15, 16, 17, 100, kAttentionPart}) {
          const Shape shape{heads, dim, format};
          const Cache cache(shape, count);
          const auto queries = random_queries(shape, 2);
          const std::vector<int> counts{count, (count + 1) / 2};
          const Sums expected = cache.attend(scalar_kernels(), queries, counts);
          for (const Kernels* kernels : available_kernels()) {
            EXPECT_TRUE(same_bits(cache.attend(*kernels, queries, counts), expected))
                << kernels->name << " " << heads << " x " << dim << ", " << count << " positions";
          }
        }
      }
    }
  }
}

TEST(Invariance, ARowOfGroupedAttentionIsTheSameAloneAndAmongOthers) {
  const Shape shape{8, 64, CacheFormat::kBF16};
  const Cache cache(shape, 200);
  const auto queries = random_queries(shape, kAttentionRows);
  const std::vector<int> counts{200, 3, 65, 128};
  for (const Kernels* kernels : available_kernels()) {
    const Sums together = cache.attend(*kernels, queries, counts);
    const std::size_t width = together.size() / queries.size();
    for (std::size_t r = 0; r < queries.size(); ++r) {
      const auto first = together.begin() + static_cast<std::ptrdiff_t>(r * width);
      EXPECT_TRUE(same_bits(cache.attend(*kernels, {queries[r]}, {counts[r]}),
                            Sums(first, first + static_cast<std::ptrdiff_t>(width))))
          << kernels->name << " row " << r;
    }
  }
}

TEST(GroupedAttention, WhatARowDoesNotSeeCannotReachIt) {
  const Shape shape{2, 32, CacheFormat::kF32};
  Cache cache(shape, 40);
  const auto queries = random_queries(shape, 2);
  for (const Kernels* kernels : available_kernels()) {
    const Sums before = cache.attend(*kernels, {queries[0]}, {20});
    Cache spoiled = cache;
    spoiled.set_key(20, 3, std::numeric_limits<float>::quiet_NaN());
    const Sums after = spoiled.attend(*kernels, queries, {20, 40});
    EXPECT_TRUE(
        same_bits(Sums(after.begin(), after.begin() + static_cast<std::ptrdiff_t>(before.size())), before));
    // The row that sees it shows it.
    EXPECT_TRUE(std::isnan(after.back())) << kernels->name;
  }
}

// Parts folded together are one softmax over all positions, within the rounding of its sums.
TEST(GroupedAttention, FoldedPartsAreOneSoftmax) {
  constexpr int kCount = 2 * kAttentionPart + 37;
  const Shape shape{3, 48, CacheFormat::kF32};
  const Cache cache(shape, kCount);
  const auto queries = random_queries(shape, 1);
  const auto heads = static_cast<std::size_t>(shape.heads);
  const auto fold_all = [&](const Kernels& kernels) {
    const auto view = [heads](Sums& s) {
      return AttentionSums{.largest = s.data(), .sum = s.data() + heads, .out = s.data() + 2 * heads};
    };
    Sums total = cache.attend(kernels, queries, {kAttentionPart});
    for (int first = kAttentionPart; first < kCount; first += kAttentionPart) {
      Sums part = cache.attend(kernels, queries, {std::min(kAttentionPart, kCount - first)}, first);
      kernels.fold_attention(
          {.total = view(total), .part = view(part), .heads = shape.heads, .dim = shape.dim});
    }
    return total;
  };
  for (const Kernels* kernels : available_kernels()) {
    const Sums total = fold_all(*kernels);
    EXPECT_TRUE(same_bits(total, fold_all(scalar_kernels()))) << kernels->name;
    for (int h = 0; h < shape.heads; ++h) {
      std::vector<double> p;
      double sum = 0;
      double spread = 0;  // of the scores: by how much their rounding shifts an exponential
      for (int t = 0; t < kCount; ++t) {
        double score = 0;
        double magnitude = 0;
        for (int i = 0; i < shape.dim; ++i) {
          const double product = queries[0][static_cast<std::size_t>(h * shape.dim + i)] * cache.key(t, i);
          score += product;
          magnitude += std::fabs(product);
        }
        spread = std::max(spread, magnitude * 0.125);
        p.push_back(std::exp(score * 0.125));
        sum += p.back();
      }
      for (int i = 0; i < shape.dim; ++i) {
        double expected = 0;
        double magnitude = 0;
        for (int t = 0; t < kCount; ++t) {
          expected += p[static_cast<std::size_t>(t)] / sum * cache.value(t, i);
          magnitude += p[static_cast<std::size_t>(t)] / sum * std::fabs(cache.value(t, i));
        }
        const float value = total[2 * heads + static_cast<std::size_t>(h * shape.dim + i)] /
                            total[heads + static_cast<std::size_t>(h)];
        // A score is a chain of `dim` roundings, felt once in a weight and once in the sum of weights; the
        // weighted sum rounds once a position.
        const double bound = (2 * shape.dim * spread + kCount + 16) * 0x1p-24 * magnitude;
        EXPECT_NEAR(value, expected, bound) << kernels->name << " head " << h << " value " << i;
      }
    }
  }
}

}  // namespace
}  // namespace tagalong::kernels
