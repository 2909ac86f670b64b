// Grouped-query attention against the plain formula in double, and law 1: chunks, threads, parts.
#include "nn/gqa.h"

#include <algorithm>
#include <cmath>

#include "nn/nn_testing.h"

namespace tagalong::nn {
namespace {

using Row = std::vector<double>;

constexpr double kTheta = 1000.0;

struct Weights {
  GqaConfig config;
  TestWeight q;
  TestWeight k;
  TestWeight v;
  TestWeight o;
  std::vector<float> q_norm;
  std::vector<float> k_norm;

  Weights(int heads, int kv_heads, bool norms, tensor::Format format = tensor::Format::kF32)
      : config{.hidden = 48,
               .heads = heads,
               .kv_heads = kv_heads,
               .head_dim = 32,
               .scale = 1.0F / std::sqrt(32.0F),
               .norm_eps = 1e-6F,
               .style = RopeStyle::kHalfSplit},
        q(format, config.q_width(), config.hidden, 1),
        k(format, config.kv_width(), config.hidden, 2),
        v(format, config.kv_width(), config.hidden, 3),
        o(format, config.hidden, config.q_width(), 4) {
    if (norms) {
      q_norm = normals(32, 5);
      k_norm = normals(32, 6);
    }
  }

  Gqa gqa() const {
    return {.config = config,
            .q = Linear(q.view),
            .k = Linear(k.view),
            .v = Linear(v.view),
            .q_norm = q_norm,
            .k_norm = k_norm,
            .o = Linear(o.view)};
  }
};

Row multiply(const TestWeight& w, const Row& x) {
  Row y(static_cast<std::size_t>(w.view.shape[0]));
  for (std::size_t r = 0; r < y.size(); ++r) {
    for (std::size_t c = 0; c < x.size(); ++c) y[r] += w.at(static_cast<int>(r), static_cast<int>(c)) * x[c];
  }
  return y;
}

// Normalises (if the model does) and rotates every head of a row.
void place(Row& heads, const std::vector<float>& norm, double eps, int dim, int position) {
  for (std::size_t first = 0; first < heads.size(); first += static_cast<std::size_t>(dim)) {
    double* x = heads.data() + first;
    if (!norm.empty()) {
      double square = 0;
      for (int i = 0; i < dim; ++i) square += x[i] * x[i];
      for (int i = 0; i < dim; ++i) x[i] *= norm[static_cast<std::size_t>(i)] / std::sqrt(square / dim + eps);
    }
    for (int j = 0; j < dim / 2; ++j) {
      const double angle = position * std::pow(kTheta, -2.0 * j / dim);
      const double a = x[j];
      const double b = x[j + dim / 2];
      x[j] = a * std::cos(angle) - b * std::sin(angle);
      x[j + dim / 2] = b * std::cos(angle) + a * std::sin(angle);
    }
  }
}

std::vector<Row> plain(const Weights& w, const std::vector<Row>& xs) {
  const GqaConfig& c = w.config;
  std::vector<Row> keys;
  std::vector<Row> values;
  std::vector<Row> out;
  for (std::size_t t = 0; t < xs.size(); ++t) {
    Row query = multiply(w.q, xs[t]);
    place(query, w.q_norm, c.norm_eps, c.head_dim, static_cast<int>(t));
    keys.push_back(multiply(w.k, xs[t]));
    place(keys.back(), w.k_norm, c.norm_eps, c.head_dim, static_cast<int>(t));
    values.push_back(multiply(w.v, xs[t]));
    Row heads(static_cast<std::size_t>(c.q_width()));
    for (int h = 0; h < c.heads; ++h) {
      const int shared = h / (c.heads / c.kv_heads) * c.head_dim;
      Row p;
      double total = 0;
      for (std::size_t s = 0; s <= t; ++s) {
        double score = 0;
        for (int i = 0; i < c.head_dim; ++i) score += query[h * c.head_dim + i] * keys[s][shared + i];
        p.push_back(std::exp(score * c.scale));
        total += p.back();
      }
      for (std::size_t s = 0; s <= t; ++s) {
        for (int i = 0; i < c.head_dim; ++i)
          heads[h * c.head_dim + i] += p[s] / total * values[s][shared + i];
      }
    }
    out.push_back(multiply(w.o, heads));
  }
  return out;
}

// Feeds one sequence in chunks of the given size; blocks lie in reverse.
std::vector<float> run(const Gqa& gqa, const std::vector<Row>& xs, int chunk, int threads,
                       cache::KvType type) {
  const GqaConfig& c = gqa.config;
  const int count = static_cast<int>(xs.size());
  cache::BlockTable table;
  for (int b = cache::blocks_for(count) - 1; b >= 0; --b) table.blocks.push_back(b);
  const std::vector<int> widths(2 * static_cast<std::size_t>(c.kv_heads), c.head_dim);
  cache::KvStore kv(widths, cache::blocks_for(count), type);
  base::ThreadPool pool(threads);
  GqaWorkspace workspace(c, chunk, count, threads);
  RopeAngles angles(c.head_dim, kTheta, chunk);
  const cache::BlockTable* tables[] = {&table};
  std::vector<float> all;
  for (int first = 0; first < count; first += chunk) {
    const int rows = std::min(chunk, count - first);
    std::vector<std::int32_t> positions;
    std::vector<float> x;
    for (int r = 0; r < rows; ++r) {
      positions.push_back(first + r);
      for (const double value : xs[static_cast<std::size_t>(first + r)])
        x.push_back(static_cast<float>(value));
    }
    const std::vector<std::int32_t> sequences(positions.size(), 0);
    angles.set(positions);
    std::vector<float> out(static_cast<std::size_t>(rows * c.hidden));
    gqa.apply({kernels::select_kernels("auto"), pool}, {positions, sequences, tables}, angles, x.data(), kv,
              {.key = 0, .value = c.kv_heads}, workspace, out.data());
    all.insert(all.end(), out.begin(), out.end());
  }
  return all;
}

std::vector<Row> inputs(const GqaConfig& config, int count) {
  std::vector<Row> xs;
  for (int t = 0; t < count; ++t) {
    const auto x = normals(static_cast<std::size_t>(config.hidden), static_cast<std::uint32_t>(100 + t));
    xs.emplace_back(x.begin(), x.end());
  }
  return xs;
}

TEST(Gqa, IsThePlainFormulaWithAndWithoutNorms) {
  for (const bool norms : {false, true}) {
    const Weights weights(6, 2, norms);
    const auto xs = inputs(weights.config, 37);
    const auto expected = plain(weights, xs);
    const auto out = run(weights.gqa(), xs, 37, 2, cache::KvType::kF32);
    const auto rounded = run(weights.gqa(), xs, 37, 2, cache::KvType::kBF16);
    double largest = 0;
    for (const Row& row : expected) {
      for (const double v : row) largest = std::max(largest, std::fabs(v));
    }
    for (std::size_t t = 0; t < xs.size(); ++t) {
      for (std::size_t i = 0; i < expected[t].size(); ++i) {
        // Products of at most 192 terms, and a softmax whose scores are of order ten.
        EXPECT_NEAR(out[t * expected[t].size() + i], expected[t][i], largest * 200 * 0x1p-24);
        // bf16 rounds a cached value by 2^-9 of itself, seen through scores and values.
        EXPECT_NEAR(rounded[t * expected[t].size() + i], expected[t][i], largest * 0x1p-9 * 10);
      }
    }
  }
}

TEST(Gqa, InvarianceUnderChunksAndThreads) {
  // The last shape has one key/value head, so that more threads split a single row's parts.
  for (const auto& [heads, kv_heads] : {std::pair{6, 2}, std::pair{4, 4}, std::pair{3, 1}}) {
    const Weights weights(heads, kv_heads, true, tensor::Format::kNVFP4);
    const Gqa gqa = weights.gqa();
    const auto xs = inputs(weights.config, 2 * kernels::kAttentionPart + 9);
    for (const cache::KvType type : {cache::KvType::kF32, cache::KvType::kBF16, cache::KvType::kF8}) {
      const auto whole = run(gqa, xs, static_cast<int>(xs.size()), 1, type);
      ASSERT_TRUE(std::all_of(whole.begin(), whole.end(), [](float v) { return std::isfinite(v); }));
      for (const int chunk : {1, 7, 100}) {
        for (const int threads : {2, 5}) {
          EXPECT_TRUE(same_bits(run(gqa, xs, chunk, threads, type), whole))
              << kv_heads << " heads of keys, chunks of " << chunk << ", " << threads << " threads";
        }
      }
    }
  }
}

}  // namespace
}  // namespace tagalong::nn
