#include "nn/dsa_indexer.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "nn/nn_testing.h"

namespace tagalong::nn {
namespace {

using tensor::Format;

constexpr DsaConfig kConfig{.heads = 2, .dim = 16, .rope = 4, .top_k = 5};
constexpr int kHidden = 32;
constexpr int kQLora = 16;
constexpr int kPositions = 20;

// Selected slots of every row of one sequence, whose blocks lie in descending order, fed in chunks.
std::vector<std::vector<std::int32_t>> select(const DsaIndexer& indexer, const std::vector<float>& x,
                                              int threads, int chunk) {
  const int count = static_cast<int>(x.size()) / kHidden;
  cache::BlockTable table;
  for (int b = cache::blocks_for(count) - 1; b >= 0; --b) table.blocks.push_back(b);
  const cache::BlockTable* tables[] = {&table};
  const std::vector<int> widths{kConfig.dim};
  cache::KvStore kv(widths, cache::blocks_for(count), cache::KvType::kF32);
  base::ThreadPool pool(threads);
  DsaWorkspace workspace(kConfig, chunk, count, threads);
  QuantizedRows scratch(chunk, kHidden);
  SlotSelection selection(chunk, kConfig.top_k);
  RopeAngles angles(kConfig.rope, 100.0, chunk);
  const auto q_resid = normals(static_cast<std::size_t>(count * kQLora), 3);
  std::vector<std::vector<std::int32_t>> chosen;
  for (int first = 0; first < count; first += chunk) {
    std::vector<std::int32_t> positions(static_cast<std::size_t>(std::min(chunk, count - first)));
    std::iota(positions.begin(), positions.end(), first);
    const std::vector<std::int32_t> sequences(positions.size(), 0);
    angles.set(positions);
    indexer.select({kernels::select_kernels("auto"), pool}, {positions, sequences, tables}, angles,
                   x.data() + first * kHidden, q_resid.data() + first * kQLora, kv, 0, workspace, scratch,
                   selection);
    for (int r = 0; r < static_cast<int>(positions.size()); ++r) {
      if (first + r < kConfig.top_k) continue;
      chosen.emplace_back(selection.row(r), selection.row(r) + kConfig.top_k);
    }
  }
  return chosen;
}

struct Fixture {
  TestWeight query{Format::kF32, kConfig.heads* kConfig.dim, kQLora, 1};
  TestWeight key{Format::kF32, kConfig.dim, kHidden, 2};
  TestWeight weights{Format::kF32, kConfig.heads, kHidden, 3};
  std::vector<float> x = normals(kPositions * kHidden, 4);

  DsaIndexer indexer() const {
    DsaIndexer i;
    i.config = kConfig;
    i.query = Linear(query.view);
    i.key = Linear(key.view);
    i.norm_weight.assign(kConfig.dim, 1.0F);
    i.norm_bias.assign(kConfig.dim, 0.0F);
    i.weights = Linear(weights.view);
    return i;
  }
};

TEST(DsaIndexer, ChoosesDistinctVisibleSlotsInOrderOfPosition) {
  const Fixture fixture;
  const cache::BlockTable table{.blocks = {1, 0}};
  const auto chosen = select(fixture.indexer(), fixture.x, 1, kPositions);
  std::size_t not_the_first = 0;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    std::vector<std::int32_t> visible;
    for (std::int32_t t = 0; t <= static_cast<std::int32_t>(i) + kConfig.top_k; ++t)
      visible.push_back(table.slot(t));
    std::size_t at = 0;  // the chosen ones are a subsequence of the visible ones
    for (const std::int32_t slot : chosen[i]) {
      while (at < visible.size() && visible[at] != slot) ++at;
      ASSERT_LT(at, visible.size()) << "row " << i;
      not_the_first += at >= static_cast<std::size_t>(kConfig.top_k) ? 1 : 0;
      ++at;
    }
  }
  EXPECT_GT(not_the_first, 10U);
}

TEST(DsaIndexer, EqualScoresGoToTheEarlierPositions) {
  Fixture fixture;
  std::fill(fixture.weights.data.begin(), fixture.weights.data.end(), std::byte{0});
  for (const auto& slots : select(fixture.indexer(), fixture.x, 2, kPositions)) {
    EXPECT_EQ(slots, (std::vector<std::int32_t>{16, 17, 18, 19, 20}));
  }
}

TEST(DsaIndexer, NotANumberRanksLowest) {
  Fixture fixture;
  // Position 0 has a NaN key: it may be chosen only when nothing else is left.
  fixture.x[0] = NAN;
  for (const auto& slots : select(fixture.indexer(), fixture.x, 1, kPositions)) {
    EXPECT_EQ(std::count(slots.begin(), slots.end(), 16), 0);
  }
}

TEST(DsaIndexer, InvarianceUnderThreadsAndChunks) {
  const Fixture fixture;
  // The longer sequence has several blocks of keys, which threads share.
  for (const int positions : {kPositions, 300}) {
    const auto x = normals(static_cast<std::size_t>(positions * kHidden), 5);
    const auto whole = select(fixture.indexer(), x, 1, positions);
    for (const int threads : {1, 2, 5}) {
      for (const int chunk : {1, 7, positions}) {
        EXPECT_EQ(select(fixture.indexer(), x, threads, chunk), whole) << threads << " " << chunk;
      }
    }
  }
}

}  // namespace
}  // namespace tagalong::nn
