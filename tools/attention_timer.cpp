#include "attention_timer.h"

#include <algorithm>
#include <chrono>
#include <random>

#include "base/check.h"

namespace tagalong::tools {

namespace {

constexpr std::size_t kCacheBytes = std::size_t{128} << 20;
constexpr int kLongest = 4096;  // positions: a conversation, or a document with a question

bool has_own_values(const nn::AttentionShape& shape) { return shape.key_widths[1] == 0; }

// A plane of keys for each of their heads, then as many of second keys, or else of values.
std::vector<int> plane_widths(const nn::AttentionShape& shape) {
  const auto heads = static_cast<std::size_t>(shape.kv_heads);
  std::vector<int> widths(heads, shape.key_widths[0]);
  widths.insert(widths.end(), heads, has_own_values(shape) ? shape.dim : shape.key_widths[1]);
  return widths;
}

std::size_t position_bytes(const nn::AttentionShape& shape) {
  std::size_t values = 0;
  for (const int width : plane_widths(shape)) values += static_cast<std::size_t>(width);
  return values * cache::kv_bytes(cache::KvType::kBF16);
}

}  // namespace

AttentionTimer::AttentionTimer(const nn::AttentionShape& shape, int positions,
                               const kernels::Kernels& kernels, base::ThreadPool& pool, int max_rows)
    : shape_(shape),
      kernels_(kernels),
      pool_(pool),
      longest_(std::min(positions, kLongest)),
      blocks_(std::max(cache::blocks_for(longest_),
                       static_cast<int>(kCacheBytes / position_bytes(shape)) / cache::kBlockTokens)),
      kv_(plane_widths(shape), blocks_, cache::KvType::kBF16),
      workspace_(shape, max_rows, longest_, pool.size()),
      out_(static_cast<std::size_t>(max_rows) * static_cast<std::size_t>(shape.heads * shape.dim)) {
  CHECK(max_rows >= 1 && positions >= 1, "{} rows, {} positions", max_rows, positions);
  std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  for (std::size_t p = 0; p < queries_.size(); ++p) {
    queries_[p].resize(static_cast<std::size_t>(max_rows) *
                       static_cast<std::size_t>(shape.heads * shape.key_widths[p]));
    for (float& v : queries_[p]) v = normal(engine);
  }
  // Every slot the same: time does not depend on the values, but pages that nobody wrote are all one page.
  for (int plane = 0; plane < 2 * shape.kv_heads; ++plane) {
    std::vector<float> values(static_cast<std::size_t>(kv_.width(plane)));
    for (float& v : values) v = normal(engine);
    pool_.run(blocks_, [&](int block, int) {
      for (int t = 0; t < cache::kBlockTokens; ++t) kv_.write(plane, block * cache::kBlockTokens + t, values);
    });
  }
}

void AttentionTimer::draw(int rows) {
  positions_.clear();
  sequences_.clear();
  views_.clear();
  tables_.resize(static_cast<std::size_t>(rows));
  for (std::int32_t row = 0; row < rows; ++row) {
    // From a quarter of the longest to all of it.
    const int spread = longest_ - longest_ / 4;
    const int length = longest_ - static_cast<int>(random_.next() % static_cast<std::uint64_t>(spread));
    positions_.push_back(length - 1);
    sequences_.push_back(row);
  }
  for (const cache::BlockTable& table : tables_) views_.push_back(&table);
}

double AttentionTimer::time(const kernels::Tuning& tuning) {
  std::size_t read = 0;
  for (std::size_t row = 0; row < tables_.size(); ++row) {
    std::vector<std::int32_t>& blocks = tables_[row].blocks;
    blocks.clear();
    for (int b = 0; b < cache::blocks_for(positions_[row] + 1); ++b) {
      blocks.push_back(next_block_);
      next_block_ = (next_block_ + 1) % blocks_;
    }
    read += static_cast<std::size_t>(positions_[row]) + 1;
  }
  bytes_ = static_cast<double>(read * position_bytes(shape_));
  const auto start = std::chrono::steady_clock::now();
  nn::attend({kernels_, pool_, tuning}, shape_,
             {.rows = {positions_, sequences_, views_},
              .kv = kv_,
              .queries = {queries_[0].data(), queries_[1].data()},
              .key_planes = {0, shape_.kv_heads},
              .value_plane = has_own_values(shape_) ? shape_.kv_heads : 0,
              .out = out_.data()},
             workspace_);
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace tagalong::tools
