// Speed of the product tiles: bytes of packed weights per second, from the caches and from memory, by number
// of activation rows. Run alone on a quiet machine; compare figures of one run only.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/packed_matrix.h"
#include "kernels/select.h"
#include "kernels/tuning.h"

namespace tagalong::kernels {
namespace {

constexpr int kInputs = 2048;

// Random codes of any quantised format; scales are harmless bytes.
struct RandomWeight {
  std::vector<std::byte> data;
  std::vector<std::byte> scales;
  tensor::WeightView view;

  RandomWeight(tensor::Format format, int outputs) {
    std::mt19937 engine(1);
    const auto elements = static_cast<std::size_t>(outputs) * kInputs;
    data.resize(format == tensor::Format::kNVFP4 || format == tensor::Format::kMXFP4 ? elements / 2
                                                                                     : elements);
    scales.resize(elements / 16);
    // No code of any format is NaN without bit 6.
    for (auto& b : data) b = static_cast<std::byte>(engine()) & std::byte{0xBF};
    for (auto& b : scales) b = static_cast<std::byte>(0x30 + engine() % 16);
    view = {.name = "bench",
            .format = format,
            .shape = {outputs, kInputs},
            .data = data.data(),
            .scales = {.block = scales.data()}};
  }
};

PackedMatrix random_bf16(int outputs) {
  std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(outputs) * kInputs);
  for (float& v : values) v = normal(engine);
  return {values, outputs, kInputs, tensor::Format::kBF16};
}

struct Rows {
  std::vector<float> x;
  std::vector<std::byte> groups;
  std::array<std::array<float, kRowTile>, 2 * kMaxRows> out;
  std::array<const float*, kMaxRows> floats;
  std::array<const std::byte*, kMaxRows> quantized;
  std::array<float*, 2 * kMaxRows> y;

  explicit Rows(const Kernels& kernels)
      : x(kMaxRows * kInputs, 0.5F), groups(kMaxRows * kInputs / kGroup * group_bytes(kernels.compute)) {
    for (std::size_t m = 0; m < kMaxRows; ++m) {
      std::byte* const row = &groups[m * kInputs / kGroup * group_bytes(kernels.compute)];
      kernels.quantize(&x[m * kInputs], kInputs, row);
      floats[m] = &x[m * kInputs];
      quantized[m] = row;
      y[m] = out[m].data();
      y[kMaxRows + m] = out[kMaxRows + m].data();
    }
  }
};

// What a product's speed is counted in.
void count(benchmark::State& state, std::size_t bytes, double weights) {
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
  state.counters["weights/s"] = benchmark::Counter(weights, benchmark::Counter::kIsIterationInvariantRate);
}

void tiles(benchmark::State& state, const Kernels& kernels, const PackedMatrix& weight, int rows,
           int bytes_ahead) {
  Rows r(kernels);
  const auto quantized = weight.format() == tensor::Format::kNVFP4   ? kernels.nvfp4_tile
                         : weight.format() == tensor::Format::kMXFP4 ? kernels.mxfp4_tile
                                                                     : kernels.q8_tile;
  const auto floats = weight.format() == tensor::Format::kFP8 ? kernels.fp8_tile : kernels.bf16_tile;
  for (auto _ : state) {
    for (int t = 0; t < weight.tiles(); ++t) {
      const Ahead ahead{bytes_ahead, weight.tile(t + 1 < weight.tiles() ? t + 1 : 0)};
      if (block_layout(weight.format()) != nullptr) {
        quantized({.weights = weight.tile(t),
                   .superblocks = weight.superblocks(),
                   .streams = 1,
                   .scales = {weight.scale(), 0},
                   .x = r.quantized.data(),
                   .y = {r.y.data(), nullptr},
                   .rows = rows,
                   .ahead = ahead});
      } else {
        floats({.weights = weight.tile(t),
                .inputs = weight.inputs(),
                .x = r.floats.data(),
                .y = r.y.data(),
                .rows = rows,
                .ahead = ahead});
      }
    }
    benchmark::DoNotOptimize(r.out);
  }
  count(state, weight.bytes(), static_cast<double>(weight.outputs()) * kInputs);
}

// Gate and up in one pass.
void pair_tiles(benchmark::State& state, const Kernels& kernels, const PackedPair& weight, int rows) {
  Rows r(kernels);
  for (auto _ : state) {
    for (int t = 0; t < weight.tiles(); ++t) {
      kernels.nvfp4_tile({.weights = weight.tile(t),
                          .superblocks = weight.superblocks(),
                          .streams = 2,
                          .scales = {weight.gate_scale(), weight.up_scale()},
                          .x = r.quantized.data(),
                          .y = {r.y.data(), r.y.data() + kMaxRows},
                          .rows = rows});
    }
    benchmark::DoNotOptimize(r.out);
  }
  count(state, weight.bytes(), 2.0 * weight.outputs() * kInputs);
}

template <typename Body>
void add(const std::string& name, const Body& body) {
  benchmark::RegisterBenchmark(name.c_str(), body);
}

PackedMatrix packed(tensor::Format format, int outputs) {
  return format == tensor::Format::kBF16 ? random_bf16(outputs)
                                         : PackedMatrix(RandomWeight(format, outputs).view);
}

// Every format from the cache, and NVFP4, FP8 and BF16 from memory, asked for ahead.
void register_table(const Kernels& kernels, int rows) {
  using tensor::Format;
  const std::string suffix =
      std::string(kernels.name) + (kernels.compute == Compute::kFast ? "/" : "/accurate/");
  const std::string end = fmt::format("/{}", rows);
  for (const Format format : {Format::kNVFP4, Format::kMXFP4, Format::kQ8, Format::kFP8, Format::kBF16}) {
    const std::string name = std::string(tensor::format_name(format)) + "/" + suffix;
    add(name + "cache" + end, [&kernels, rows, format](benchmark::State& state) {
      tiles(state, kernels, packed(format, 128), rows, 0);
    });
    if (format != Format::kNVFP4 && format != Format::kBF16 && format != Format::kFP8) continue;
    add(name + "memory" + end, [&kernels, rows, format](benchmark::State& state) {
      tiles(state, kernels, packed(format, format == Format::kNVFP4 ? 128 * 1024 : 32 * 1024), rows,
            Tuning{}.prefetch);
    });
  }
  add("NVFP4/pair/" + suffix + "cache" + end, [&kernels, rows](benchmark::State& state) {
    const RandomWeight weight(tensor::Format::kNVFP4, 128);
    pair_tiles(state, kernels, PackedPair(weight.view, weight.view), rows);
  });
}

int register_all() {
  for (const Compute compute : {Compute::kFast, Compute::kAccurate}) {
    for (const Kernels* kernels : available_kernels(compute)) {
      if (kernels->name == "scalar") continue;
      for (const int rows : {1, 2, 4, 6, 8}) register_table(*kernels, rows);
    }
  }
  return 0;
}

[[maybe_unused]] const int kRegistered = register_all();

}  // namespace
}  // namespace tagalong::kernels
