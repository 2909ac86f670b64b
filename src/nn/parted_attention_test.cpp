// The driver of attention: law 1 under threads, neighbours, cuts and choices of positions, and softmax in
// double arithmetic.
#include "nn/parted_attention.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "kernels/tuning_testing.h"
#include "nn/nn_testing.h"

namespace tagalong::nn {
namespace {

using kernels::kAttentionPart;

// With one shape all heads share latents as keys and values, with the other each two share their own.
constexpr AttentionShape kLatent{
    .heads = 20, .kv_heads = 1, .key_widths = {32, 16}, .dim = 32, .scale = 0.2F};
constexpr AttentionShape kGrouped{
    .heads = 6, .kv_heads = 3, .key_widths = {16, 0}, .dim = 16, .scale = 0.25F};

// Parts of a worker that wait to be folded are eight: the longest sequence has many times as many.
constexpr int kLengths[] = {1, kAttentionPart + 44, 21 * kAttentionPart + 5, kAttentionPart + 1};
constexpr int kTopK = 2 * kAttentionPart + 30;

// A row of a batch: the sequence and the position.
struct Row {
  std::int32_t sequence;
  std::int32_t position;
};

// The caches of some sequences, their blocks mixed with each other, and queries for each row of a batch.
class Scene {
 public:
  Scene(const AttentionShape& shape, std::vector<Row> batch)
      : shape_(shape), batch_(std::move(batch)), kv_(widths(shape), blocks(), cache::KvType::kBF16) {
    std::vector<std::int32_t> order(static_cast<std::size_t>(blocks()));
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
    std::shuffle(order.begin(), order.end(), std::mt19937(1));
    tables_.resize(std::size(kLengths));
    for (std::size_t s = 0; s < tables_.size(); ++s) {
      for (int b = 0; b < cache::blocks_for(kLengths[s]); ++b) {
        tables_[s].blocks.push_back(order.back());
        order.pop_back();
      }
      views_.push_back(&tables_[s]);
    }
    for (int plane = 0; plane < static_cast<int>(widths(shape).size()); ++plane) {
      for (std::int32_t slot = 0; slot < kv_.slots(); ++slot) {
        kv_.write(plane, slot,
                  normals(static_cast<std::size_t>(kv_.width(plane)),
                          static_cast<std::uint32_t>(slot * 64 + plane)));
      }
    }
    for (std::size_t p = 0; p < 2; ++p) {
      queries_[p] = normals(batch_.size() * query_width(p), static_cast<std::uint32_t>(100 + p));
    }
    selection_ = SlotSelection(static_cast<int>(batch_.size()), kTopK);
    for (std::size_t r = 0; r < batch_.size(); ++r) choose(static_cast<int>(r));
  }

  std::size_t rows() const { return batch_.size(); }
  std::size_t out_width() const {
    return static_cast<std::size_t>(shape_.heads) * static_cast<std::size_t>(shape_.dim);
  }

  // Rows first.. + count as one batch.
  std::vector<float> attend_to(std::size_t first, std::size_t count, const kernels::Kernels& kernels,
                               int threads, bool selects, const kernels::Tuning& tuning = {}) const {
    std::vector<std::int32_t> positions;
    std::vector<std::int32_t> sequences;
    SlotSelection selection(static_cast<int>(count), kTopK);
    for (std::size_t r = 0; r < count; ++r) {
      positions.push_back(batch_[first + r].position);
      sequences.push_back(batch_[first + r].sequence);
      std::copy_n(selection_.row(static_cast<int>(first + r)), kTopK, selection.row(static_cast<int>(r)));
    }
    base::ThreadPool pool(threads);
    const int longest = *std::max_element(std::begin(kLengths), std::end(kLengths));
    AttentionWorkspace workspace(shape_, static_cast<int>(count), longest, threads);
    std::vector<float> out(count * out_width());
    attend({kernels, pool, tuning}, shape_,
           {.rows = {positions, sequences, views_},
            .kv = kv_,
            .queries = {queries_[0].data() + first * query_width(0),
                        queries_[1].data() + first * query_width(1)},
            .key_planes = {0, shape_.kv_heads},
            .value_plane = value_plane(),
            .selection = selects ? &selection : nullptr,
            .out = out.data()},
           workspace);
    return out;
  }

  // Softmax over all positions that the row sees, as values of `head`.
  std::vector<double> plain(std::size_t row, int head, bool selects) const {
    const auto [sequence, position] = batch_[row];
    std::vector<std::int32_t> slots;
    if (selects && position + 1 > kTopK) {
      slots.assign(selection_.row(static_cast<int>(row)), selection_.row(static_cast<int>(row)) + kTopK);
    } else {
      for (int t = 0; t <= position; ++t)
        slots.push_back(tables_[static_cast<std::size_t>(sequence)].slot(t));
    }
    const int kv_head = head / shape_.group();
    std::vector<double> weights;
    double sum = 0;
    for (const std::int32_t slot : slots) {
      double score = 0;
      for (std::size_t p = 0; p < 2; ++p) {
        const int width = shape_.key_widths[p];
        for (int i = 0; i < width; ++i) {
          score += static_cast<double>(
                       queries_[p][row * query_width(p) + static_cast<std::size_t>(head * width + i)]) *
                   cached(static_cast<int>(p) * shape_.kv_heads + kv_head, slot, i);
        }
      }
      weights.push_back(std::exp(score * static_cast<double>(shape_.scale)));
      sum += weights.back();
    }
    std::vector<double> out(static_cast<std::size_t>(shape_.dim));
    for (std::size_t t = 0; t < slots.size(); ++t) {
      for (int i = 0; i < shape_.dim; ++i) {
        out[static_cast<std::size_t>(i)] += weights[t] / sum * cached(value_plane() + kv_head, slots[t], i);
      }
    }
    return out;
  }

 private:
  // Of the planes: keys of each head, then second keys or values of each.
  static std::vector<int> widths(const AttentionShape& shape) {
    std::vector<int> all(static_cast<std::size_t>(shape.kv_heads), shape.key_widths[0]);
    all.insert(all.end(), static_cast<std::size_t>(shape.kv_heads),
               shape.key_widths[1] > 0 ? shape.key_widths[1] : shape.dim);
    return all;
  }
  static int blocks() {
    int count = 0;
    for (const int length : kLengths) count += cache::blocks_for(length);
    return count;
  }
  int value_plane() const { return shape_.key_widths[1] > 0 ? 0 : shape_.kv_heads; }
  std::size_t query_width(std::size_t plane) const {
    return static_cast<std::size_t>(shape_.heads) * static_cast<std::size_t>(shape_.key_widths[plane]);
  }
  double cached(int plane, std::int32_t slot, int i) const {
    std::uint16_t bits = 0;
    std::memcpy(&bits, kv_.plane(plane) + 2 * (static_cast<std::size_t>(slot) * kv_.width(plane) + i), 2);
    return tensor::bf16_to_float(bits);
  }
  // Some positions of a row that has more than enough, in order.
  void choose(int row) {
    const auto [sequence, position] = batch_[static_cast<std::size_t>(row)];
    if (position + 1 <= kTopK) return;
    std::vector<std::int32_t> all(static_cast<std::size_t>(position) + 1);
    for (std::int32_t t = 0; t <= position; ++t) all[static_cast<std::size_t>(t)] = t;
    std::vector<std::int32_t> some;
    std::sample(all.begin(), all.end(), std::back_inserter(some), kTopK,
                std::mt19937(static_cast<unsigned>(row)));
    for (int i = 0; i < kTopK; ++i) {
      selection_.row(row)[i] =
          tables_[static_cast<std::size_t>(sequence)].slot(some[static_cast<std::size_t>(i)]);
    }
  }

  AttentionShape shape_;
  std::vector<Row> batch_;
  cache::KvStore kv_;
  std::vector<cache::BlockTable> tables_;
  std::vector<const cache::BlockTable*> views_;
  std::array<std::vector<float>, 2> queries_;
  SlotSelection selection_;
};

// The last rows of all sequences, some rows of the longest at a part's border, and one in the midst of it.
std::vector<Row> mixed_rows() {
  std::vector<Row> batch;
  for (std::int32_t s = 0; s < 4; ++s) batch.push_back({s, kLengths[s] - 1});
  for (std::int32_t t = -3; t < 4; ++t) batch.push_back({2, 20 * kAttentionPart + t});
  batch.push_back({2, 700});
  return batch;
}

TEST(PartedAttention, InvarianceUnderThreadsAndNeighbours) {
  for (const AttentionShape& shape : {kLatent, kGrouped}) {
    const Scene scene(shape, mixed_rows());
    for (const bool selects : {false, true}) {
      std::vector<float> alone;
      for (std::size_t r = 0; r < scene.rows(); ++r) {
        const auto row = scene.attend_to(r, 1, kernels::select_kernels("scalar"), 1, selects);
        alone.insert(alone.end(), row.begin(), row.end());
      }
      const auto width = static_cast<std::ptrdiff_t>(scene.out_width());
      // One long row; rows of unequal lengths; a chunk at a part's border; all.
      for (const auto& [first, count] :
           {std::pair<std::size_t, std::size_t>{2, 1}, {0, 4}, {4, 7}, {0, scene.rows()}}) {
        const std::vector<float> expected(alone.begin() + static_cast<std::ptrdiff_t>(first) * width,
                                          alone.begin() + static_cast<std::ptrdiff_t>(first + count) * width);
        for (const int threads : {1, 2, 3, 8}) {
          EXPECT_TRUE(same_bits(
              scene.attend_to(first, count, kernels::select_kernels("auto"), threads, selects), expected))
              << shape.kv_heads << " heads of keys, rows " << first << " + " << count << ", " << threads
              << " threads" << (selects ? ", chosen positions" : "");
        }
      }
    }
  }
}

TEST(PartedAttention, InvarianceUnderTuning) {
  for (const AttentionShape& shape : {kLatent, kGrouped}) {
    const Scene scene(shape, mixed_rows());
    const auto& kernels = kernels::select_kernels("auto");
    std::mt19937 random(5);
    for (const bool selects : {false, true}) {
      const auto all = scene.attend_to(0, scene.rows(), kernels, 1, selects);
      for (int trial = 0; trial < 60; ++trial) {
        const kernels::Tuning tuning = kernels::random_tuning(random);
        const std::size_t first = random() % scene.rows();
        const std::size_t count = 1 + random() % (scene.rows() - first);
        const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first * scene.out_width());
        const std::vector<float> expected(begin,
                                          begin + static_cast<std::ptrdiff_t>(count * scene.out_width()));
        const int threads = 1 + trial % 7;
        EXPECT_TRUE(same_bits(scene.attend_to(first, count, kernels, threads, selects, tuning), expected))
            << to_string(tuning) << ", rows " << first << " + " << count << ", " << threads << " threads";
      }
    }
  }
}

TEST(PartedAttention, IsOneSoftmax) {
  for (const AttentionShape& shape : {kLatent, kGrouped}) {
    const Scene scene(shape, mixed_rows());
    for (const bool selects : {false, true}) {
      const auto out = scene.attend_to(0, scene.rows(), kernels::select_kernels("auto"), 3, selects);
      for (std::size_t r = 0; r < scene.rows(); ++r) {
        for (int h = 0; h < shape.heads; ++h) {
          const auto expected = scene.plain(r, h, selects);
          for (std::size_t i = 0; i < expected.size(); ++i) {
            // Scores sum at most 48 products and stay below 2^5, values below 2^3; a weight errs by its
            // score's rounding, and sums of up to 5,381 terms, of one sign for the weights, by one rounding
            // a term.
            EXPECT_NEAR(out[r * scene.out_width() + static_cast<std::size_t>(h) * expected.size() + i],
                        expected[i], (2 * 48 * 32 + 2 * 5381) * 0x1p-24 * 8)
                << "row " << r << " head " << h << (selects ? ", chosen positions" : "");
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace tagalong::nn
