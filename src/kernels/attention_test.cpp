// Attention and indexer: every table against scalar bit for bit, scalar against double arithmetic, and rows
// and heads taken together against the same ones alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/select.h"
#include "kernels/tables.h"
#include "tensor/formats/bf16.h"
#include "tensor/formats/fp8.h"

namespace tagalong::kernels {
namespace {

std::vector<float> normals(std::size_t n, std::uint32_t seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> v(n);
  for (float& x : v) x = normal(engine);
  return v;
}

std::size_t area(int a, int b) { return static_cast<std::size_t>(a) * static_cast<std::size_t>(b); }

// A plane of the cache, and the values that a kernel reads from it.
struct Plane {
  std::vector<std::byte> bytes;
  std::vector<float> values;

  Plane(int slots, int width, CacheFormat format, std::uint32_t seed)
      : values(normals(area(slots, width), seed)) {
    const std::size_t width_bytes = format == CacheFormat::kF32 ? 4 : format == CacheFormat::kBF16 ? 2 : 1;
    bytes.resize(values.size() * width_bytes);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::uint16_t half = tensor::float_to_bf16(values[i]);
      const std::uint8_t eighth = tensor::float_to_e4m3(values[i]);
      if (format == CacheFormat::kBF16) values[i] = tensor::bf16_to_float(half);
      if (format == CacheFormat::kF8) values[i] = tensor::e4m3_to_float(eighth);
      const void* code = &values[i];
      if (format == CacheFormat::kBF16) code = &half;
      if (format == CacheFormat::kF8) code = &eighth;
      std::memcpy(&bytes[width_bytes * i], code, width_bytes);
    }
  }
};

// Queries and a cache with scattered slots; row r attends to counts[r] of them.
struct Case {
  int latent, rope, heads;
  CacheFormat format;
  std::vector<std::int32_t> counts;

  int rows = static_cast<int>(counts.size());
  int slots = *std::max_element(counts.begin(), counts.end()) * 2 + 3;
  Plane latents{slots, latent, format, 1};
  Plane ropes{slots, rope, format, 2};
  std::vector<float> q_latent = normals(area(rows * heads, latent), 3);
  std::vector<float> q_rope = normals(area(rows * heads, rope), 4);
  std::vector<float> weights = normals(area(rows, heads), 5);
  std::vector<std::int32_t> order = scattered();

  std::vector<std::int32_t> scattered() const {
    std::vector<std::int32_t> result(static_cast<std::size_t>(slots));
    for (std::int32_t t = 0; t < slots; ++t) result[static_cast<std::size_t>(t)] = t;
    std::shuffle(result.begin(), result.end(), std::mt19937(6));
    return result;
  }
};

constexpr float kScale = 0.2F;

// Rows first.. + count and heads first_head.. + heads, all else of the result left at -7.
std::vector<float> attend(const Kernels& kernels, const Case& c, int first, int count, int first_head,
                          int heads) {
  std::vector<float> scratch(attention_scratch(heads));
  std::vector<float> out(area(c.rows * c.heads, c.latent), -7.0F);
  const std::size_t head = area(first, c.heads) + static_cast<std::size_t>(first_head);
  kernels.latent_attention({.q_latent = c.q_latent.data() + head * c.latent,
                            .q_rope = c.q_rope.data() + head * c.rope,
                            .latents = c.latents.bytes.data(),
                            .ropes = c.ropes.bytes.data(),
                            .format = c.format,
                            .slots = c.order.data(),
                            .counts = c.counts.data() + first,
                            .rows = count,
                            .row_heads = c.heads,
                            .heads = heads,
                            .latent = c.latent,
                            .rope = c.rope,
                            .scale = kScale,
                            .scratch = scratch.data(),
                            .out = out.data() + head * c.latent});
  return out;
}

std::vector<float> attend(const Kernels& kernels, const Case& c) {
  return attend(kernels, c, 0, c.rows, 0, c.heads);
}

// Indexer scores of rows first.. + count over the latents, concatenated.
std::vector<float> score(const Kernels& kernels, const Case& c, int first, int count) {
  std::vector<float> scratch(attention_scratch(c.heads));
  std::vector<std::vector<float>> out;
  std::vector<float*> rows;
  for (int r = first; r < first + count; ++r) out.emplace_back((c.counts[r] + 15) / 16 * 16);
  for (auto& row : out) rows.push_back(row.data());
  kernels.index_scores({.queries = c.q_latent.data() + area(first * c.heads, c.latent),
                        .weights = c.weights.data() + area(first, c.heads),
                        .keys = c.latents.bytes.data(),
                        .format = c.format,
                        .slots = c.order.data(),
                        .counts = c.counts.data() + first,
                        .rows = count,
                        .heads = c.heads,
                        .dim = c.latent,
                        .scale = kScale,
                        .scratch = scratch.data(),
                        .out = rows.data()});
  std::vector<float> all;
  for (int r = 0; r < count; ++r) all.insert(all.end(), out[r].begin(), out[r].begin() + c.counts[first + r]);
  return all;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](float x, float y) {
           // The payload of a NaN is nobody's promise.
           return (std::isnan(x) && std::isnan(y)) ||
                  std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
         });
}

constexpr std::array kFormats{CacheFormat::kF32, CacheFormat::kBF16, CacheFormat::kF8};

TEST(Invariance, AttentionAndIndexerHaveTheBitsOfScalar) {
  for (const CacheFormat format : kFormats) {
    for (const int latent : {16, 64, 80, 512}) {
      for (const int heads : {1, 3, 6, 12}) {
        for (const int count : {1, 15, 16, 17, 63, 64, 65, 200}) {
          const Case c{latent, heads == 3 ? 80 : 16, heads, format, {count, count / 2 + 1}};
          const auto expected = attend(scalar_kernels(), c);
          const auto expected_scores = score(scalar_kernels(), c, 0, 2);
          for (const Kernels* kernels : available_kernels()) {
            EXPECT_TRUE(same_bits(attend(*kernels, c), expected))
                << kernels->name << " " << latent << " " << heads << " " << count;
            EXPECT_TRUE(same_bits(score(*kernels, c, 0, 2), expected_scores))
                << kernels->name << " " << latent << " " << heads << " " << count;
          }
        }
      }
    }
  }
}

TEST(Invariance, ARowAttendsTheSameAloneAndWithOthersWhateverTheHeads) {
  for (const CacheFormat format : kFormats) {
    // Unordered lengths, over several blocks and with a block's border between rows.
    const Case c{48, 16, 7, format, {63, 64, 65, 190, 1}};
    for (const Kernels* kernels : available_kernels()) {
      std::vector<float> together(c.q_latent.size(), -7.0F);
      std::vector<float> scores;
      for (int r = 0; r < c.rows; ++r) {
        const auto alone = attend(*kernels, c, r, 1, 0, c.heads);
        std::copy_n(alone.begin() + r * c.heads * c.latent, c.heads * c.latent,
                    together.begin() + r * c.heads * c.latent);
        const auto of_row = score(*kernels, c, r, 1);
        scores.insert(scores.end(), of_row.begin(), of_row.end());
      }
      for (int first = 0; first < c.rows; ++first) {
        for (int count = 1; count <= std::min(kAttentionRows, c.rows - first); ++count) {
          for (const auto& [head, heads] :
               {std::pair{0, 7}, std::pair{0, 4}, std::pair{4, 3}, std::pair{6, 1}}) {
            const auto some = attend(*kernels, c, first, count, head, heads);
            for (int r = 0; r < c.rows; ++r) {
              for (int h = 0; h < c.heads; ++h) {
                const bool asked = r >= first && r < first + count && h >= head && h < head + heads;
                for (int i = 0; i < c.latent; ++i) {
                  const std::size_t at = area(r * c.heads + h, c.latent) + static_cast<std::size_t>(i);
                  ASSERT_EQ(some[at], asked ? together[at] : -7.0F)
                      << kernels->name << " row " << r << " of " << first << " + " << count << " head " << h;
                }
              }
            }
          }
          const auto some = score(*kernels, c, first, count);
          std::ptrdiff_t before = 0;
          for (int r = 0; r < first; ++r) before += c.counts[r];
          EXPECT_TRUE(std::equal(some.begin(), some.end(), scores.begin() + before)) << kernels->name;
        }
      }
    }
  }
}

TEST(Attention, AgreesWithDoubleArithmetic) {
  const Case c{64, 32, 3, CacheFormat::kBF16, {150, 40}};
  const auto out = attend(scalar_kernels(), c);
  const auto scores = score(scalar_kernels(), c, 0, 2);
  constexpr double kEps = 0x1p-24;
  std::size_t next = 0;
  for (int r = 0; r < c.rows; ++r) {
    for (int t = 0; t < c.counts[r]; ++t, ++next) {
      const auto slot = static_cast<std::size_t>(c.order[t]);
      double sum = 0;
      double size = 0;
      for (int h = 0; h < c.heads; ++h) {
        double dot = 0;
        double dot_size = 0;
        for (std::size_t i = 0; i < 64; ++i) {
          const double product = static_cast<double>(c.q_latent[area(r * c.heads + h, 64) + i]) *
                                 static_cast<double>(c.latents.values[slot * 64 + i]);
          dot += product;
          dot_size += std::fabs(product);
        }
        const double weight = c.weights[area(r, c.heads) + static_cast<std::size_t>(h)];
        sum += weight * std::max(0.0, dot * static_cast<double>(kScale));
        size += std::fabs(weight) * dot_size * static_cast<double>(kScale);
      }
      // 64 fused products, the scale, three heads: each rounds once, relative to what |products| bound.
      EXPECT_NEAR(scores[next], sum, (64 + 1 + 3) * kEps * size);
    }
    for (int h = 0; h < c.heads; ++h) {
      std::vector<double> s;
      double largest = -INFINITY;
      double score_error = 0;
      for (int t = 0; t < c.counts[r]; ++t) {
        const auto slot = static_cast<std::size_t>(c.order[t]);
        double dot = 0;
        double size = 0;
        const auto add = [&](const std::vector<float>& q, const std::vector<float>& k, std::size_t width) {
          for (std::size_t i = 0; i < width; ++i) {
            const double product = static_cast<double>(q[area(r * c.heads + h, 1) * width + i]) *
                                   static_cast<double>(k[slot * width + i]);
            dot += product;
            size += std::fabs(product);
          }
        };
        add(c.q_latent, c.latents.values, 64);
        add(c.q_rope, c.ropes.values, 32);
        s.push_back(dot * static_cast<double>(kScale));
        largest = std::max(largest, s.back());
        score_error = std::max(score_error, 97 * kEps * size * static_cast<double>(kScale));
      }
      double total = 0;
      for (double& p : s) total += p = std::exp(p - largest);
      for (std::size_t i = 0; i < 64; ++i) {
        double value = 0;
        double magnitude = 0;
        for (int t = 0; t < c.counts[r]; ++t) {
          const double v = c.latents.values[static_cast<std::size_t>(c.order[t]) * 64 + i];
          value += s[t] / total * v;
          magnitude += s[t] / total * std::fabs(v);
        }
        // A weight errs relatively by its score's error, twice (its own and the total's), by the subtraction
        // of the largest (scores are below 2^5) and by four units of the exponential; sum and total round
        // once a key and once a block.
        const double bound = (2 * score_error + (32 + 8 + 2 * c.counts[r] + 8) * kEps) * magnitude;
        EXPECT_NEAR(out[area(r * c.heads + h, 64) + i], value, bound);
      }
    }
  }
}

TEST(Attention, OverOnePositionReturnsItsLatent) {
  const Case c{16, 16, 1, CacheFormat::kF32, {1}};
  for (const Kernels* kernels : available_kernels()) {
    const auto out = attend(*kernels, c);
    for (int i = 0; i < 16; ++i)
      EXPECT_EQ(out[i], c.latents.values[area(c.order[0], 16) + i]) << kernels->name;
  }
}

TEST(Attention, ScoresThatGrowFromBlockToBlockDoNotOverflow) {
  Case c{16, 16, 2, CacheFormat::kF32, {256}};
  // The key of position t is t / 2 in each value: scores up to 2 * 16 * 127, far beyond the exponential's
  // range.
  std::fill(c.q_latent.begin(), c.q_latent.end(), 10.0F);
  for (int t = 0; t < 256; ++t) {
    for (int i = 0; i < 16; ++i) {
      const float value = static_cast<float>(t) / 2;
      std::memcpy(&c.latents.bytes[4 * (area(c.order[t], 16) + i)], &value, 4);
    }
  }
  for (const Kernels* kernels : available_kernels()) {
    // One half less in each of 16 values is 2^-23 of the weight and below: the last key is all there is.
    for (const float v : attend(*kernels, c)) EXPECT_NEAR(v, 127.5F, 127.5F * 0x1p-20F) << kernels->name;
  }
}

TEST(Attention, NeighboursThatAreNotNumbersDoNotSpread) {
  Case c{16, 16, 2, CacheFormat::kF32, {20, 21}};
  const auto clean = attend(scalar_kernels(), c);
  const float nan = std::nanf("");
  std::memcpy(&c.latents.bytes[4 * area(c.order[20], 16)], &nan, 4);  // seen by the second row only
  for (const Kernels* kernels : available_kernels()) {
    const auto out = attend(*kernels, c);
    EXPECT_TRUE(std::equal(out.begin(), out.begin() + 32, clean.begin())) << kernels->name;
    EXPECT_TRUE(std::all_of(out.begin() + 32, out.end(), [](float v) { return std::isnan(v); }))
        << kernels->name;
  }
}

TEST(Attention, ReadsEveryCodeOfAnE4m3Cache) {
  // One position and one head: the output is the cached latent, NaN where the code says so.
  Case c{256, 16, 1, CacheFormat::kF8, {1}};
  for (int code = 0; code < 256; ++code) {
    c.latents.bytes[area(c.order[0], 256) + static_cast<std::size_t>(code)] = static_cast<std::byte>(code);
  }
  std::fill(c.q_latent.begin(), c.q_latent.end(), 0.0F);
  for (const Kernels* kernels : available_kernels()) {
    const auto out = attend(*kernels, c);
    // A key with a NaN has the score NaN, so every value shows it.
    EXPECT_TRUE(std::all_of(out.begin(), out.end(), [](float v) { return std::isnan(v); })) << kernels->name;
  }
  c.latents.bytes[area(c.order[0], 256) + 0x7F] = std::byte{0};
  c.latents.bytes[area(c.order[0], 256) + 0xFF] = std::byte{0};
  for (const Kernels* kernels : available_kernels()) {
    const auto out = attend(*kernels, c);
    for (int code = 0; code < 256; ++code) {
      const float expected =
          (code & 0x7F) == 0x7F ? 0.0F : tensor::e4m3_to_float(static_cast<std::uint8_t>(code));
      EXPECT_EQ(out[static_cast<std::size_t>(code)], expected) << kernels->name << " code " << code;
    }
  }
}

}  // namespace
}  // namespace tagalong::kernels
