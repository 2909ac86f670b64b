// Attention, grouped and latent: every table against scalar bit for bit, scalar against softmax in double
// arithmetic, and rows and heads taken together against the same ones alone.
#include "kernels/attention.h"

#include <gtest/gtest.h>

#include <limits>

#include "kernels/kernels_testing.h"
#include "kernels/select.h"
#include "kernels/tables.h"

namespace tagalong::kernels {
namespace {

constexpr float kScale = 0.2F;

// Latent shapes have two planes of keys, the first of which serves as values; in grouped ones each slot has
// three key/value heads, of which the middle one is attended to.
struct Shape {
  int heads;
  std::array<int, 2> key_widths;
  int dim;

  bool latent() const { return key_widths[1] > 0; }
  int kv_heads() const { return latent() ? 1 : 3; }
  std::size_t sums_width() const { return area(heads, dim + 2); }
};

constexpr Shape grouped(int heads, int dim) { return {heads, {dim, 0}, dim}; }
constexpr Shape latent(int heads, int width, int rope) { return {heads, {width, rope}, width}; }

// The sums of some rows, one after the other: largest and sum of each head, then out.
using Sums = std::vector<float>;

AttentionSums view(Sums& sums, int heads, std::size_t at = 0) {
  float* first = sums.data() + at;
  return {.largest = first, .sum = first + heads, .out = first + 2 * heads};
}

// Queries of `rows` rows, and a cache with scattered slots.
struct Case {
  Shape shape;
  CacheFormat format;
  int positions;
  int rows = 1;

  int slots = positions * 2 + 3;
  std::array<Plane, 2> keys{Plane(slots, shape.kv_heads() * shape.key_widths[0], format, 1),
                            Plane(slots, shape.kv_heads() * shape.key_widths[1], format, 2)};
  Plane own_values{slots, shape.kv_heads() * shape.dim, format, 3};
  std::array<std::vector<float>, 2> queries{normals(area(rows * shape.heads, shape.key_widths[0]), 4),
                                            normals(area(rows* shape.heads, shape.key_widths[1]), 5)};
  std::vector<std::int32_t> order = shuffled(slots, 6);

  const Plane& values() const { return shape.latent() ? keys[0] : own_values; }
  int column(int width) const { return shape.kv_heads() / 2 * width; }  // where the head attended to begins

  double query(int plane, int row, int head, int i) const {
    const auto p = static_cast<std::size_t>(plane);
    return queries[p][area(row * shape.heads + head, shape.key_widths[p]) + static_cast<std::size_t>(i)];
  }
  double key(int plane, int position, int i) const {
    const auto p = static_cast<std::size_t>(plane);
    return keys[p].at(order[static_cast<std::size_t>(position)], column(shape.key_widths[p]) + i);
  }
  double value(int position, int i) const {
    return values().at(order[static_cast<std::size_t>(position)], column(shape.dim) + i);
  }
};

// What to ask for: rows first_row.. + counts.size(), each of which sees so many positions from `begin` on,
// and heads first_head.. + heads.
struct Ask {
  std::vector<int> counts;
  int first_row = 0;
  int begin = 0;
  int first_head = 0;
  int heads = 0;  // 0: all
};

Sums attend(const Kernels& kernels, const Case& c, const Ask& ask) {
  const int heads = ask.heads == 0 ? c.shape.heads : ask.heads;
  const std::size_t width = area(heads, c.shape.dim + 2);
  Sums sums(ask.counts.size() * width, -7.0F);
  std::vector<float> scratch(attention_scratch(heads));
  AttentionPart part{};
  for (std::size_t p = 0; p < 2; ++p) {
    part.keys[p].data = c.keys[p].bytes.data() +
                        static_cast<std::size_t>(c.column(c.shape.key_widths[p])) * c.keys[p].value_bytes;
    part.keys[p].stride = c.keys[p].stride();
    part.keys[p].width = c.shape.key_widths[p];
  }
  part.rows = static_cast<int>(ask.counts.size());
  for (int r = 0; r < part.rows; ++r) {
    for (std::size_t p = 0; p < 2; ++p) {
      part.keys[p].queries[r] =
          c.queries[p].data() +
          area((ask.first_row + r) * c.shape.heads + ask.first_head, c.shape.key_widths[p]);
    }
    part.counts[r] = ask.counts[static_cast<std::size_t>(r)];
    part.sums[r] = view(sums, heads, static_cast<std::size_t>(r) * width);
  }
  part.heads = heads;
  part.dim = c.shape.dim;
  part.values =
      c.values().bytes.data() + static_cast<std::size_t>(c.column(c.shape.dim)) * c.values().value_bytes;
  part.stride = c.values().stride();
  part.format = c.format;
  part.slots = c.order.data() + ask.begin;
  part.scale = kScale;
  part.scratch = scratch.data();
  kernels.attention_part(part);
  return sums;
}

Sums row_of(const Sums& sums, std::size_t row, std::size_t width) {
  const auto first = sums.begin() + static_cast<std::ptrdiff_t>(row * width);
  return {first, first + static_cast<std::ptrdiff_t>(width)};
}

TEST(Invariance, AttentionHasTheBitsOfScalar) {
  const Shape shapes[] = {grouped(1, 16),    grouped(2, 48),     grouped(3, 16),     grouped(7, 128),
                          grouped(8, 128),   grouped(16, 48),    latent(1, 16, 16),  latent(3, 80, 80),
                          latent(6, 64, 16), latent(12, 80, 16), latent(12, 512, 64)};
  for (const CacheFormat format : kCacheFormats) {
    for (const Shape& shape : shapes) {
      for (const int count : {1, 15, 16, 17, 63, 64, 65, 200, kAttentionPart}) {
        const Case c{.shape = shape, .format = format, .positions = count, .rows = 2};
        const Ask ask{.counts = {count, count / 2 + 1}};
        const Sums expected = attend(scalar_kernels(), c, ask);
        for (const Kernels* kernels : available_kernels()) {
          EXPECT_TRUE(same_bits(attend(*kernels, c, ask), expected))
              << kernels->name << " " << shape.heads << " x " << shape.key_widths[0] << " + "
              << shape.key_widths[1] << ", " << count << " positions";
        }
      }
    }
  }
}

TEST(Invariance, ARowAttendsTheSameAloneAndWithOthersWhateverTheHeads) {
  for (const CacheFormat format : kCacheFormats) {
    for (const Shape& shape : {latent(7, 48, 16), grouped(7, 32)}) {
      // Unordered lengths, over several blocks and with a block's border between rows.
      const std::vector<int> lengths{63, 64, 65, 190, 1};
      const Case c{.shape = shape, .format = format, .positions = 190, .rows = 5};
      for (const Kernels* kernels : available_kernels()) {
        std::vector<Sums> alone;
        for (int r = 0; r < c.rows; ++r) {
          alone.push_back(
              attend(*kernels, c, {.counts = {lengths[static_cast<std::size_t>(r)]}, .first_row = r}));
        }
        for (int first = 0; first < c.rows; ++first) {
          for (int count = 1; count <= std::min(kAttentionRows, c.rows - first); ++count) {
            for (const auto& [head, heads] :
                 {std::pair{0, 7}, std::pair{0, 4}, std::pair{4, 3}, std::pair{6, 1}}) {
              const Sums some = attend(*kernels, c,
                                       {.counts = {lengths.begin() + first, lengths.begin() + first + count},
                                        .first_row = first,
                                        .first_head = head,
                                        .heads = heads});
              const std::size_t width = area(heads, shape.dim + 2);
              for (int r = 0; r < count; ++r) {
                Sums row = row_of(some, static_cast<std::size_t>(r), width);
                Sums& whole = alone[static_cast<std::size_t>(first + r)];
                const AttentionSums expected = view(whole, shape.heads);
                const AttentionSums found = view(row, heads);
                for (int h = 0; h < heads; ++h) {
                  ASSERT_EQ(found.largest[h], expected.largest[head + h]) << kernels->name << " row " << r;
                  ASSERT_EQ(found.sum[h], expected.sum[head + h]) << kernels->name << " row " << r;
                }
                ASSERT_TRUE(std::equal(found.out, found.out + area(heads, shape.dim),
                                       expected.out + area(head, shape.dim)))
                    << kernels->name << " row " << r << " of " << first << " + " << count << " head " << head;
              }
            }
          }
        }
      }
    }
  }
}

// Parts folded together are one softmax over all positions, within the rounding of its sums.
TEST(Attention, FoldedPartsAreOneSoftmax) {
  constexpr int kCount = 2 * kAttentionPart + 37;
  constexpr double kEps = 0x1p-24;
  for (const Shape& shape : {latent(3, 64, 32), grouped(3, 48)}) {
    for (const CacheFormat format : kCacheFormats) {
      const Case c{.shape = shape, .format = format, .positions = kCount};
      const auto fold_all = [&](const Kernels& kernels) {
        Sums total = attend(kernels, c, {.counts = {kAttentionPart}});
        for (int begin = kAttentionPart; begin < kCount; begin += kAttentionPart) {
          Sums part =
              attend(kernels, c, {.counts = {std::min(kAttentionPart, kCount - begin)}, .begin = begin});
          kernels.fold_attention({.total = view(total, shape.heads),
                                  .part = view(part, shape.heads),
                                  .heads = shape.heads,
                                  .dim = shape.dim});
        }
        kernels.finish_attention(view(total, shape.heads), shape.heads, shape.dim);
        return total;
      };
      Sums total = fold_all(scalar_kernels());
      for (const Kernels* kernels : available_kernels()) {
        EXPECT_TRUE(same_bits(fold_all(*kernels), total)) << kernels->name;
      }
      const AttentionSums sums = view(total, shape.heads);
      for (int h = 0; h < shape.heads; ++h) {
        std::vector<double> p;
        double largest = -INFINITY;
        double score_error = 0;
        for (int t = 0; t < kCount; ++t) {
          double dot = 0;
          double size = 0;
          for (int plane = 0; plane < 2; ++plane) {
            for (int i = 0; i < shape.key_widths[static_cast<std::size_t>(plane)]; ++i) {
              const double product = c.query(plane, 0, h, i) * c.key(plane, t, i);
              dot += product;
              size += std::fabs(product);
            }
          }
          p.push_back(dot * static_cast<double>(kScale));
          largest = std::max(largest, p.back());
          // A score rounds once a product and once for its scale.
          score_error = std::max(score_error, (shape.key_widths[0] + shape.key_widths[1] + 1) * kEps * size *
                                                  static_cast<double>(kScale));
        }
        double sum = 0;
        for (double& weight : p) sum += weight = std::exp(weight - largest);
        for (int i = 0; i < shape.dim; ++i) {
          double expected = 0;
          double magnitude = 0;
          for (int t = 0; t < kCount; ++t) {
            expected += p[static_cast<std::size_t>(t)] / sum * c.value(t, i);
            magnitude += p[static_cast<std::size_t>(t)] / sum * std::fabs(c.value(t, i));
          }
          const float value = sums.out[area(h, shape.dim) + static_cast<std::size_t>(i)];
          // A weight errs relatively by its score's error, twice (its own and the total's), by the
          // subtraction of the largest (scores are below 2^5) and by four units of the exponential; sum and
          // total round once a key, and with each part they are folded: a factor of four units and two
          // roundings.
          const double bound = (2 * score_error + (32 + 8 + 2 * kCount + 2 * 3 * 6) * kEps) * magnitude;
          EXPECT_NEAR(value, expected, bound) << "head " << h << " value " << i;
        }
      }
    }
  }
}

TEST(Attention, OverOnePositionReturnsItsValue) {
  for (const Shape& shape : {latent(1, 16, 16), grouped(1, 16)}) {
    const Case c{.shape = shape, .format = CacheFormat::kF32, .positions = 1};
    for (const Kernels* kernels : available_kernels()) {
      Sums sums = attend(*kernels, c, {.counts = {1}});
      const AttentionSums found = view(sums, 1);
      EXPECT_EQ(found.sum[0], 1.0F) << kernels->name;
      for (int i = 0; i < 16; ++i) EXPECT_EQ(found.out[i], c.value(0, i)) << kernels->name;
    }
  }
}

TEST(Attention, ScoresThatGrowFromKeyToKeyDoNotOverflow) {
  Case c{.shape = latent(2, 16, 16), .format = CacheFormat::kF32, .positions = kAttentionPart};
  // The key of position t is t / 2 in each value: scores up to 2 * 16 * 127, far beyond the exponential's
  // range.
  std::fill(c.queries[0].begin(), c.queries[0].end(), 10.0F);
  for (int t = 0; t < c.positions; ++t) {
    for (int i = 0; i < 16; ++i)
      c.keys[0].set(c.order[static_cast<std::size_t>(t)], i, static_cast<float>(t) / 2);
  }
  for (const Kernels* kernels : available_kernels()) {
    // In halves, the later one folded to the earlier.
    constexpr int kHalf = kAttentionPart / 2;
    Sums total = attend(*kernels, c, {.counts = {kHalf}});
    Sums part = attend(*kernels, c, {.counts = {kHalf}, .begin = kHalf});
    kernels->fold_attention({.total = view(total, 2), .part = view(part, 2), .heads = 2, .dim = 16});
    const AttentionSums sums = view(total, 2);
    for (std::size_t i = 0; i < area(2, 16); ++i) {
      // One half less in each of 16 values is 2^-23 of the weight and below: the last key is all there is.
      EXPECT_NEAR(sums.out[i] / sums.sum[i / 16], 127.5F, 127.5F * 0x1p-20F) << kernels->name;
    }
  }
}

TEST(Attention, WhatARowDoesNotSeeCannotReachIt) {
  for (const Shape& shape : {latent(2, 16, 16), grouped(2, 32)}) {
    Case c{.shape = shape, .format = CacheFormat::kF32, .positions = 40, .rows = 2};
    const Sums before = attend(scalar_kernels(), c, {.counts = {20, 40}});
    c.keys[0].set(c.order[20], c.column(shape.key_widths[0]) + 3, std::numeric_limits<float>::quiet_NaN());
    for (const Kernels* kernels : available_kernels()) {
      const Sums after = attend(*kernels, c, {.counts = {20, 40}});
      const std::size_t width = shape.sums_width();
      EXPECT_TRUE(same_bits(row_of(after, 0, width), row_of(before, 0, width))) << kernels->name;
      // The row that sees it shows it, once it is divided by its sum.
      Sums seeing = row_of(after, 1, width);
      for (int h = 0; h < shape.heads; ++h) EXPECT_TRUE(std::isnan(view(seeing, shape.heads).sum[h]));
    }
  }
}

TEST(Attention, ReadsEveryCodeOfAnE4m3Cache) {
  // One position and one head: the output is the cached latent, NaN where the code says so.
  Case c{.shape = latent(1, 256, 16), .format = CacheFormat::kF8, .positions = 1};
  std::byte* cached = c.keys[0].bytes.data() + area(c.order[0], 256);
  for (int code = 0; code < 256; ++code) cached[code] = static_cast<std::byte>(code);
  std::fill(c.queries[0].begin(), c.queries[0].end(), 0.0F);
  for (const Kernels* kernels : available_kernels()) {
    // A key with a NaN has the score NaN, so every value shows it.
    Sums sums = attend(*kernels, c, {.counts = {1}});
    const float* out = view(sums, 1).out;
    EXPECT_TRUE(std::all_of(out, out + 256, [](float v) { return std::isnan(v); })) << kernels->name;
  }
  cached[0x7F] = cached[0xFF] = std::byte{0};
  for (const Kernels* kernels : available_kernels()) {
    Sums sums = attend(*kernels, c, {.counts = {1}});
    for (int code = 0; code < 256; ++code) {
      const float expected =
          (code & 0x7F) == 0x7F ? 0.0F : tensor::e4m3_to_float(static_cast<std::uint8_t>(code));
      EXPECT_EQ(view(sums, 1).out[code], expected) << kernels->name << " code " << code;
    }
  }
}

}  // namespace
}  // namespace tagalong::kernels
