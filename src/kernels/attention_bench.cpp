// Speed of attention at the widths of GLM-5 (latent) and Qwen3-30B (grouped), and of GLM-5's indexer, by
// number of rows that share a pass over the keys. `products/s` counts the multiplications of scores and
// outputs; compare figures of one run only.
#include "kernels/attention.h"

#include <benchmark/benchmark.h>

#include <array>
#include <string>
#include <vector>

#include "kernels/select.h"

namespace tagalong::kernels {
namespace {

constexpr int kKeys = 2048;
constexpr int kIndexHeads = 32;
constexpr int kIndexDim = 128;

struct Shape {
  int heads;
  int key_widths[2];
  int dim;
};

constexpr Shape kLatent{.heads = 64, .key_widths = {512, 64}, .dim = 512};
constexpr Shape kGrouped{.heads = 8, .key_widths = {128, 0}, .dim = 128};

std::size_t area(int a, int b) { return static_cast<std::size_t>(a) * static_cast<std::size_t>(b); }

std::vector<std::byte> bf16_ones(std::size_t values) {
  std::vector<std::byte> bytes(values * 2);
  for (std::size_t i = 0; i < values; ++i) bytes[2 * i + 1] = std::byte{0x3F};
  return bytes;
}

std::vector<std::int32_t> scattered_blocks_of_16() {
  std::vector<std::int32_t> result;
  for (int block = kKeys / 16 - 1; block >= 0; --block) {
    for (int i = 0; i < 16; ++i) result.push_back(block * 16 + i);
  }
  return result;
}

// A bf16 cache in scattered order, queries, and room for results.
class Attention {
 public:
  explicit Attention(const Shape& shape) : shape_(shape) {
    for (int p = 0; p < 2; ++p) {
      keys_[p] = bf16_ones(area(kKeys, shape.key_widths[p]));
      queries_[p].assign(area(kAttentionRows * shape.heads, shape.key_widths[p]), 0.01F);
    }
  }

  // All keys for some rows: parts, folded together, and divided by the sum of the weights.
  void run(const Kernels& kernels, int rows) {
    const std::size_t width = area(shape_.heads, shape_.dim + 2);
    const auto sums = [&](std::vector<float>& of, int r) {
      float* at = of.data() + static_cast<std::size_t>(r) * width;
      return AttentionSums{.largest = at, .sum = at + shape_.heads, .out = at + 2 * shape_.heads};
    };
    for (int first = 0; first < kKeys; first += kAttentionPart) {
      AttentionPart part{};
      for (int p = 0; p < 2; ++p) {
        part.keys[p].data = keys_[p].data();
        part.keys[p].stride = 2 * area(shape_.key_widths[p], 1);
        part.keys[p].width = shape_.key_widths[p];
      }
      for (int r = 0; r < rows; ++r) {
        for (int p = 0; p < 2; ++p) {
          part.keys[p].queries[r] = queries_[p].data() + area(r * shape_.heads, shape_.key_widths[p]);
        }
        part.counts[r] = kAttentionPart;
        part.sums[r] = sums(first == 0 ? total_ : part_, r);
      }
      part.rows = rows;
      part.heads = shape_.heads;
      part.dim = shape_.dim;
      part.values = keys_[0].data();
      part.stride = part.keys[0].stride;
      part.format = CacheFormat::kBF16;
      part.slots = slots_.data() + first;
      part.scale = 0.1F;
      part.scratch = scratch_.data();
      kernels.attention_part(part);
      for (int r = 0; first > 0 && r < rows; ++r) {
        kernels.fold_attention(
            {.total = sums(total_, r), .part = sums(part_, r), .heads = shape_.heads, .dim = shape_.dim});
      }
    }
    for (int r = 0; r < rows; ++r) {
      kernels.finish_attention(sums(total_, r), shape_.heads, shape_.dim);
    }
    benchmark::DoNotOptimize(total_.data());
  }

 private:
  Shape shape_;
  std::array<std::vector<std::byte>, 2> keys_;  // the first serves as values too
  std::array<std::vector<float>, 2> queries_;
  std::vector<float> total_ = std::vector<float>(area(kAttentionRows * shape_.heads, shape_.dim + 2));
  std::vector<float> part_ = total_;
  std::vector<float> scratch_ = std::vector<float>(attention_scratch(shape_.heads));
  std::vector<std::int32_t> slots_ = scattered_blocks_of_16();
};

void attend(benchmark::State& state, const Kernels& kernels, const Shape& shape, int rows) {
  Attention attention(shape);
  for (auto _ : state) attention.run(kernels, rows);
  const int products = shape.key_widths[0] + shape.key_widths[1] + shape.dim;
  state.counters["products/s"] =
      benchmark::Counter(static_cast<double>(rows) * kKeys * shape.heads * products,
                         benchmark::Counter::kIsIterationInvariantRate);
}

void score(benchmark::State& state, const Kernels& kernels, int rows) {
  const std::vector<std::byte> keys = bf16_ones(area(kKeys, kIndexDim));
  const std::vector<float> queries(area(kAttentionRows * kIndexHeads, kIndexDim), 0.01F);
  const std::vector<float> weights(area(kAttentionRows, kIndexHeads), 0.01F);
  const std::vector<std::int32_t> slots = scattered_blocks_of_16();
  const std::array<std::int32_t, kAttentionRows> counts{kKeys, kKeys, kKeys, kKeys};
  std::vector<float> scratch(index_scratch(kIndexHeads));
  std::vector<float> scores(area(kAttentionRows, kKeys));
  std::array<float*, kAttentionRows> out;
  for (int r = 0; r < kAttentionRows; ++r) out[r] = scores.data() + area(r, kKeys);
  for (auto _ : state) {
    kernels.index_scores({.queries = queries.data(),
                          .weights = weights.data(),
                          .keys = keys.data(),
                          .format = CacheFormat::kBF16,
                          .slots = slots.data(),
                          .counts = counts.data(),
                          .rows = rows,
                          .heads = kIndexHeads,
                          .dim = kIndexDim,
                          .scale = 0.1F,
                          .scratch = scratch.data(),
                          .out = out.data()});
    benchmark::DoNotOptimize(scores.data());
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
                                   [=](benchmark::State& state) { attend(state, *kernels, kLatent, rows); });
      benchmark::RegisterBenchmark(("grouped_attention/" + name).c_str(),
                                   [=](benchmark::State& state) { attend(state, *kernels, kGrouped, rows); });
      benchmark::RegisterBenchmark(("index_scores/" + name).c_str(),
                                   [=](benchmark::State& state) { score(state, *kernels, rows); });
    }
  }
  return 0;
}

[[maybe_unused]] const int kRegistered = register_all();

}  // namespace
}  // namespace tagalong::kernels
