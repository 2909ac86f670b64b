// MLA against its expanded form in double precision: keys and values of every head written out.
#include "nn/mla.h"

#include <cmath>
#include <list>

#include "nn/nn_testing.h"

namespace tagalong::nn {
namespace {

using tensor::Format;

constexpr MlaConfig kConfig{.hidden = 32,
                            .heads = 3,
                            .q_lora = 16,
                            .kv_lora = 32,
                            .nope = 10,
                            .rope = 6,
                            .v = 16,
                            .scale = 0.25F,
                            .norm_eps = 1e-6F};
constexpr int kHead = kConfig.nope + kConfig.rope;

struct Weights {
  std::list<TestWeight> buffers;
  const TestWeight& q_a = buffers.emplace_back(Format::kF32, kConfig.q_lora, kConfig.hidden, 1);
  const TestWeight& q_b = buffers.emplace_back(Format::kF32, kConfig.heads* kHead, kConfig.q_lora, 2);
  const TestWeight& kv_a =
      buffers.emplace_back(Format::kF32, kConfig.kv_lora + kConfig.rope, kConfig.hidden, 3);
  const TestWeight& kv_b =
      buffers.emplace_back(Format::kF32, kConfig.heads*(kConfig.nope + kConfig.v), kConfig.kv_lora, 4);
  const TestWeight& o = buffers.emplace_back(Format::kF32, kConfig.hidden, kConfig.heads* kConfig.v, 5);
  std::vector<float> q_norm = normals(kConfig.q_lora, 6);
  std::vector<float> kv_norm = normals(kConfig.kv_lora, 7);

  Mla mla() const {
    Mla m;
    m.config = kConfig;
    m.q_a = Linear(q_a.view);
    m.q_norm = q_norm;
    m.q_b = Linear(q_b.view);
    m.kv_a = Linear(kv_a.view);
    m.kv_norm = kv_norm;
    m.absorb(kv_b.view);
    m.o = Linear(o.view);
    return m;
  }
};

using Row = std::vector<double>;

Row multiply(const TestWeight& w, const Row& x) {
  Row y(static_cast<std::size_t>(w.view.shape[0]));
  for (std::size_t r = 0; r < y.size(); ++r) {
    for (std::size_t k = 0; k < x.size(); ++k) y[r] += w.at(static_cast<int>(r), static_cast<int>(k)) * x[k];
  }
  return y;
}

Row normed(Row x, const std::vector<float>& weight) {
  double square = 0;
  for (const double v : x) square += v * v;
  const double factor = 1 / std::sqrt(square / static_cast<double>(x.size()) + 1e-6);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] *= factor * weight[i];
  return x;
}

void rotate(double* x, int position) {
  for (int j = 0; j < kConfig.rope / 2; ++j) {
    const double angle = position / std::pow(1000.0, 2.0 * j / kConfig.rope);
    const double a = x[2 * j];
    const double b = x[2 * j + 1];
    x[2 * j] = a * std::cos(angle) - b * std::sin(angle);
    x[2 * j + 1] = a * std::sin(angle) + b * std::cos(angle);
  }
}

// Causal attention over one sequence, with per-head keys and values.
std::vector<Row> expanded(const Weights& w, const std::vector<Row>& xs) {
  std::vector<Row> queries;
  std::vector<Row> latents;
  std::vector<Row> keys;
  for (std::size_t t = 0; t < xs.size(); ++t) {
    queries.push_back(multiply(w.q_b, normed(multiply(w.q_a, xs[t]), w.q_norm)));
    for (int h = 0; h < kConfig.heads; ++h)
      rotate(&queries[t][h * kHead + kConfig.nope], static_cast<int>(t));
    Row kv = multiply(w.kv_a, xs[t]);
    keys.emplace_back(kv.begin() + kConfig.kv_lora, kv.end());
    rotate(keys[t].data(), static_cast<int>(t));
    kv.resize(kConfig.kv_lora);
    latents.push_back(multiply(w.kv_b, normed(kv, w.kv_norm)));
  }
  std::vector<Row> out;
  for (std::size_t t = 0; t < xs.size(); ++t) {
    Row heads(kConfig.heads * kConfig.v);
    for (int h = 0; h < kConfig.heads; ++h) {
      const int base = h * (kConfig.nope + kConfig.v);
      Row p;
      double total = 0;
      for (std::size_t s = 0; s <= t; ++s) {
        double score = 0;
        for (int i = 0; i < kConfig.nope; ++i) score += queries[t][h * kHead + i] * latents[s][base + i];
        for (int i = 0; i < kConfig.rope; ++i) score += queries[t][h * kHead + kConfig.nope + i] * keys[s][i];
        p.push_back(std::exp(score * kConfig.scale));
        total += p.back();
      }
      for (std::size_t s = 0; s <= t; ++s) {
        for (int i = 0; i < kConfig.v; ++i) {
          heads[h * kConfig.v + i] += p[s] / total * latents[s][base + kConfig.nope + i];
        }
      }
    }
    out.push_back(multiply(w.o, heads));
  }
  return out;
}

// Feeds one sequence in chunks of the given size.
std::vector<float> absorbed(const Mla& mla, const std::vector<Row>& xs, int chunk, int threads,
                            cache::KvType type) {
  const int count = static_cast<int>(xs.size());
  cache::BlockTable table;
  for (int b = cache::blocks_for(count) - 1; b >= 0; --b) table.blocks.push_back(b);
  const std::vector<int> widths{kConfig.kv_lora, kConfig.rope_width()};
  cache::KvStore kv(widths, cache::blocks_for(count), type);
  base::ThreadPool pool(threads);
  MlaWorkspace workspace(kConfig, chunk, count, threads);
  DsaWorkspace dsa;
  SlotSelection selection;
  RopeAngles angles(kConfig.rope, 1000.0, chunk);
  const cache::BlockTable* tables[] = {&table};
  std::vector<float> all;
  for (int first = 0; first < count; first += chunk) {
    const int rows = std::min(chunk, count - first);
    std::vector<std::int32_t> positions;
    std::vector<float> x;
    for (int r = 0; r < rows; ++r) {
      positions.push_back(first + r);
      for (const double v : xs[static_cast<std::size_t>(first + r)]) x.push_back(static_cast<float>(v));
    }
    const std::vector<std::int32_t> sequences(positions.size(), 0);
    angles.set(positions);
    std::vector<float> out(static_cast<std::size_t>(rows * kConfig.hidden));
    mla.apply({kernels::select_kernels("auto"), pool}, {positions, sequences, tables}, angles, x.data(), kv,
              {.latent = 0, .rope = 1}, workspace, dsa, selection, out.data());
    all.insert(all.end(), out.begin(), out.end());
  }
  return all;
}

std::vector<Row> inputs(int count) {
  std::vector<Row> xs;
  for (int t = 0; t < count; ++t) {
    const auto x = normals(kConfig.hidden, static_cast<std::uint32_t>(100 + t));
    xs.emplace_back(x.begin(), x.end());
  }
  return xs;
}

TEST(Mla, AbsorbedFormEqualsTheExpandedOne) {
  const Weights weights;
  const auto xs = inputs(37);
  const auto expected = expanded(weights, xs);
  const auto out = absorbed(weights.mla(), xs, 37, 2, cache::KvType::kF32);
  const auto rounded = absorbed(weights.mla(), xs, 37, 2, cache::KvType::kBF16);
  const auto coarse = absorbed(weights.mla(), xs, 37, 2, cache::KvType::kF8);
  double largest = 0;
  for (const Row& row : expected) {
    for (const double v : row) largest = std::max(largest, std::fabs(v));
  }
  for (std::size_t t = 0; t < xs.size(); ++t) {
    for (int i = 0; i < kConfig.hidden; ++i) {
      const float value = out[t * kConfig.hidden + static_cast<std::size_t>(i)];
      // Five products in a row, the longest of 48 terms, and a softmax whose scores are of order ten.
      EXPECT_NEAR(value, expected[t][i], largest * 200 * 0x1p-24);
      // bf16 rounds a cached value by 2^-9 of itself, seen through scores and values.
      EXPECT_NEAR(rounded[t * kConfig.hidden + static_cast<std::size_t>(i)], expected[t][i],
                  largest * 0x1p-9 * 10);
      // e4m3 by 2^-4.
      EXPECT_NEAR(coarse[t * kConfig.hidden + static_cast<std::size_t>(i)], expected[t][i],
                  largest * 0x1p-4 * 10);
    }
  }
}

TEST(Mla, InvarianceUnderChunksAndThreads) {
  const Weights weights;
  const Mla mla = weights.mla();
  const int count = 2 * kernels::kAttentionPart + 9;
  const auto xs = inputs(count);
  for (const cache::KvType type : {cache::KvType::kF32, cache::KvType::kBF16, cache::KvType::kF8}) {
    const auto whole = absorbed(mla, xs, count, 1, type);
    for (const int chunk : {1, 7, 255}) {
      for (const int threads : {1, 2, 3}) {
        EXPECT_TRUE(same_bits(absorbed(mla, xs, chunk, threads, type), whole)) << chunk << " " << threads;
      }
    }
  }
}

}  // namespace
}  // namespace tagalong::nn
