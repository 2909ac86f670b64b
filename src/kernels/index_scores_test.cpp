// The indexer's scores: every table against scalar bit for bit, scalar against double arithmetic, and rows
// taken together against the same ones alone.
#include <gtest/gtest.h>

#include "kernels/kernels_testing.h"
#include "kernels/select.h"
#include "kernels/tables.h"

namespace tagalong::kernels {
namespace {

constexpr float kScale = 0.2F;

// Queries and cached keys with scattered slots; row r scores counts[r] of them.
struct Case {
  int heads;
  int dim;
  CacheFormat format;
  std::vector<std::int32_t> counts;

  int rows = static_cast<int>(counts.size());
  int slots = *std::max_element(counts.begin(), counts.end()) * 2 + 3;
  Plane keys{slots, dim, format, 1};
  std::vector<float> queries = normals(area(rows * heads, dim), 2);
  std::vector<float> weights = normals(area(rows, heads), 3);
  std::vector<std::int32_t> order = shuffled(slots, 4);
};

// Of rows first.. + count, one after the other.
std::vector<float> score(const Kernels& kernels, const Case& c, int first, int count) {
  std::vector<float> scratch(index_scratch(c.heads));
  std::vector<std::vector<float>> out;
  std::vector<float*> rows;
  for (int r = first; r < first + count; ++r) out.emplace_back((c.counts[r] + 15) / 16 * 16);
  for (auto& row : out) rows.push_back(row.data());
  kernels.index_scores({.queries = c.queries.data() + area(first * c.heads, c.dim),
                        .weights = c.weights.data() + area(first, c.heads),
                        .keys = c.keys.bytes.data(),
                        .format = c.format,
                        .slots = c.order.data(),
                        .counts = c.counts.data() + first,
                        .rows = count,
                        .heads = c.heads,
                        .dim = c.dim,
                        .scale = kScale,
                        .scratch = scratch.data(),
                        .out = rows.data()});
  std::vector<float> all;
  for (int r = 0; r < count; ++r) all.insert(all.end(), out[r].begin(), out[r].begin() + c.counts[first + r]);
  return all;
}

TEST(Invariance, IndexScoresHaveTheBitsOfScalar) {
  for (const CacheFormat format : kCacheFormats) {
    for (const int dim : {16, 64, 80, 128}) {
      for (const int heads : {1, 3, 6, 12}) {
        for (const int count : {1, 15, 16, 17, 63, 64, 65, 200}) {
          const Case c{heads, dim, format, {count, count / 2 + 1}};
          const auto expected = score(scalar_kernels(), c, 0, 2);
          for (const Kernels* kernels : available_kernels()) {
            EXPECT_TRUE(same_bits(score(*kernels, c, 0, 2), expected))
                << kernels->name << " " << heads << " x " << dim << ", " << count << " keys";
          }
        }
      }
    }
  }
}

TEST(Invariance, ARowScoresTheSameAloneAndWithOthers) {
  for (const CacheFormat format : kCacheFormats) {
    // Unordered lengths, over several blocks and with a block's border between rows.
    const Case c{7, 48, format, {63, 64, 65, 190, 1}};
    for (const Kernels* kernels : available_kernels()) {
      for (int first = 0; first < c.rows; ++first) {
        for (int count = 1; count <= std::min(kAttentionRows, c.rows - first); ++count) {
          std::vector<float> alone;
          for (int r = first; r < first + count; ++r) {
            const auto of_row = score(*kernels, c, r, 1);
            alone.insert(alone.end(), of_row.begin(), of_row.end());
          }
          EXPECT_TRUE(same_bits(score(*kernels, c, first, count), alone))
              << kernels->name << " rows " << first << " + " << count;
        }
      }
    }
  }
}

TEST(IndexScores, AgreeWithDoubleArithmetic) {
  const Case c{3, 64, CacheFormat::kBF16, {150, 40}};
  const auto scores = score(scalar_kernels(), c, 0, 2);
  std::size_t next = 0;
  for (int r = 0; r < c.rows; ++r) {
    for (int t = 0; t < c.counts[r]; ++t, ++next) {
      double sum = 0;
      double size = 0;
      for (int h = 0; h < c.heads; ++h) {
        double dot = 0;
        double dot_size = 0;
        for (int i = 0; i < c.dim; ++i) {
          const double product = static_cast<double>(c.queries[area(r * c.heads + h, c.dim) + i]) *
                                 c.keys.at(c.order[static_cast<std::size_t>(t)], i);
          dot += product;
          dot_size += std::fabs(product);
        }
        const double weight = c.weights[area(r, c.heads) + h];
        sum += weight * std::max(0.0, dot * static_cast<double>(kScale));
        size += std::fabs(weight) * dot_size * static_cast<double>(kScale);
      }
      // A chain of n roundings errs by n eps times the sum of magnitudes: the dot, the scale, the heads.
      EXPECT_NEAR(scores[next], sum, (c.dim + 1 + c.heads) * 0x1p-24 * size);
    }
  }
}

}  // namespace
}  // namespace tagalong::kernels
