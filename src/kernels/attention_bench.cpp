// Speed of attention and of the indexer at GLM-5's widths, by number of rows that share a pass over the keys.
// `products/s` counts the multiplications of scores and outputs; compare figures of one run only.
#include <benchmark/benchmark.h>

#include <array>
#include <string>
#include <vector>

#include "kernels/select.h"

namespace tagalong::kernels {
namespace {

constexpr int kKeys = 2048;
constexpr int kHeads = 64;
constexpr int kLatent = 512;
constexpr int kRope = 64;
constexpr int kIndexHeads = 32;
constexpr int kIndexDim = 128;

// A bf16 cache in scattered order, queries, and room for results.
struct Setup {
  std::vector<std::byte> latents = bf16_ones(kKeys * kLatent);
  std::vector<std::byte> ropes = bf16_ones(kKeys * kRope);
  std::vector<float> q_latent = std::vector<float>(kAttentionRows * kHeads * kLatent, 0.01F);
  std::vector<float> q_rope = std::vector<float>(kAttentionRows * kHeads * kRope, 0.01F);
  std::vector<float> out = std::vector<float>(kAttentionRows * kHeads * kLatent);
  std::vector<float> scores = std::vector<float>(kAttentionRows * kKeys);
  std::vector<float> scratch = std::vector<float>(attention_scratch(kHeads));
  std::vector<std::int32_t> slots = blocks_of_16();
  std::array<std::int32_t, kAttentionRows> counts{kKeys, kKeys, kKeys, kKeys};

  static std::vector<std::byte> bf16_ones(std::size_t values) {
    std::vector<std::byte> bytes(values * 2);
    for (std::size_t i = 0; i < values; ++i) bytes[2 * i + 1] = std::byte{0x3F};
    return bytes;
  }
  static std::vector<std::int32_t> blocks_of_16() {
    std::vector<std::int32_t> result;
    for (int block = kKeys / 16 - 1; block >= 0; --block) {
      for (int i = 0; i < 16; ++i) result.push_back(block * 16 + i);
    }
    return result;
  }
};

void attend(benchmark::State& state, const Kernels& kernels, int rows) {
  Setup s;
  for (auto _ : state) {
    kernels.latent_attention({.q_latent = s.q_latent.data(),
                              .q_rope = s.q_rope.data(),
                              .latents = s.latents.data(),
                              .ropes = s.ropes.data(),
                              .format = CacheFormat::kBF16,
                              .slots = s.slots.data(),
                              .counts = s.counts.data(),
                              .rows = rows,
                              .row_heads = kHeads,
                              .heads = kHeads,
                              .latent = kLatent,
                              .rope = kRope,
                              .scale = 0.1F,
                              .scratch = s.scratch.data(),
                              .out = s.out.data()});
    benchmark::DoNotOptimize(s.out.data());
  }
  state.counters["products/s"] =
      benchmark::Counter(static_cast<double>(rows) * kKeys * kHeads * (2 * kLatent + kRope),
                         benchmark::Counter::kIsIterationInvariantRate);
}

void score(benchmark::State& state, const Kernels& kernels, int rows) {
  Setup s;
  std::array<float*, kAttentionRows> out;
  for (int r = 0; r < kAttentionRows; ++r) out[r] = s.scores.data() + static_cast<std::size_t>(r) * kKeys;
  for (auto _ : state) {
    kernels.index_scores({.queries = s.q_latent.data(),
                          .weights = s.q_rope.data(),
                          .keys = s.latents.data(),
                          .format = CacheFormat::kBF16,
                          .slots = s.slots.data(),
                          .counts = s.counts.data(),
                          .rows = rows,
                          .heads = kIndexHeads,
                          .dim = kIndexDim,
                          .scale = 0.1F,
                          .scratch = s.scratch.data(),
                          .out = out.data()});
    benchmark::DoNotOptimize(s.scores.data());
  }
  state.counters["products/s"] =
      benchmark::Counter(static_cast<double>(rows) * kKeys * kIndexHeads * kIndexDim,
                         benchmark::Counter::kIsIterationInvariantRate);
}

int register_all() {
  for (const Kernels* kernels : available_kernels()) {
    if (kernels->name == "scalar") continue;
    for (const int rows : {1, 4}) {
      const std::string name = std::string(kernels->name) + "/" + std::to_string(rows);
      benchmark::RegisterBenchmark(("latent_attention/" + name).c_str(),
                                   [=](benchmark::State& state) { attend(state, *kernels, rows); });
      benchmark::RegisterBenchmark(("index_scores/" + name).c_str(),
                                   [=](benchmark::State& state) { score(state, *kernels, rows); });
    }
  }
  return 0;
}

[[maybe_unused]] const int kRegistered = register_all();

}  // namespace
}  // namespace tagalong::kernels
