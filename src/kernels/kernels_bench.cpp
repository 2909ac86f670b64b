// Speed of the product tiles: bytes of packed weights per second, from the caches and from memory, by number
// of activation rows. Run alone on a quiet machine; compare figures of one run only.
#include <benchmark/benchmark.h>

#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/packed_matrix.h"
#include "kernels/select.h"

namespace tagalong::kernels {
namespace {

constexpr int kInputs = 2048;

// A packed NVFP4 matrix of random codes. `outputs` times 2048 at 4.5 bits.
PackedMatrix random_nvfp4(int outputs) {
  std::mt19937 engine(1);
  const auto elements = static_cast<std::size_t>(outputs) * kInputs;
  std::vector<std::byte> data(elements / 2);
  std::vector<std::byte> scales(elements / 16);
  for (auto& b : data) b = static_cast<std::byte>(engine());
  for (auto& b : scales) b = static_cast<std::byte>(0x30 + engine() % 16);
  return PackedMatrix({.name = "bench",
                       .format = tensor::Format::kNVFP4,
                       .shape = {outputs, kInputs},
                       .data = data.data(),
                       .scales = {.block = scales.data(), .tensor = 1.0F}});
}

PackedMatrix random_bf16(int outputs) {
  std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(outputs) * kInputs);
  for (float& v : values) v = normal(engine);
  return {values, outputs, kInputs, tensor::Format::kBF16};
}

struct Rows {
  std::vector<float> x;
  std::vector<std::int8_t> values;
  std::vector<float> scales;
  std::vector<std::int32_t> corrections;
  std::array<std::array<float, kRowTile>, kMaxRows> out;
  std::array<const float*, kMaxRows> floats;
  std::array<QuantizedRow, kMaxRows> quantized;
  std::array<float*, kMaxRows> y;

  explicit Rows(const Kernels& kernels)
      : x(kMaxRows * kInputs, 0.5F),
        values(kMaxRows * kInputs),
        scales(kMaxRows * kInputs / 16),
        corrections(kMaxRows * kInputs / 16) {
    for (std::size_t m = 0; m < kMaxRows; ++m) {
      const std::size_t group = m * kInputs / 16;
      kernels.quantize(&x[m * kInputs], kInputs, &values[m * kInputs], &scales[group], &corrections[group]);
      floats[m] = &x[m * kInputs];
      quantized[m] = {&values[m * kInputs], &scales[group], &corrections[group]};
      y[m] = out[m].data();
    }
  }
};

void tiles(benchmark::State& state, const Kernels& kernels, const PackedMatrix& weight, int rows) {
  Rows r(kernels);
  for (auto _ : state) {
    for (int t = 0; t < weight.tiles(); ++t) {
      if (weight.format() == tensor::Format::kNVFP4) {
        kernels.nvfp4_tile({.weights = weight.tile(t),
                            .superblocks = weight.superblocks(),
                            .streams = 1,
                            .scales = {weight.scale(), 0},
                            .x = r.quantized.data(),
                            .y = {r.y.data(), nullptr},
                            .rows = rows});
      } else {
        kernels.bf16_tile({.weights = weight.tile(t),
                           .inputs = weight.inputs(),
                           .x = r.floats.data(),
                           .y = r.y.data(),
                           .rows = rows});
      }
    }
    benchmark::DoNotOptimize(r.out);
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(weight.bytes()));
  state.counters["weights/s"] = benchmark::Counter(static_cast<double>(weight.outputs()) * kInputs,
                                                   benchmark::Counter::kIsIterationInvariantRate);
}

int register_all() {
  for (const Kernels* kernels : available_kernels()) {
    if (kernels->name == "scalar") continue;
    for (const int rows : {1, 2, 4, 6, 8}) {
      for (const bool memory : {false, true}) {
        const std::string name =
            std::string(kernels->name) + (memory ? "/memory/" : "/cache/") + std::to_string(rows);
        benchmark::RegisterBenchmark(("nvfp4/" + name).c_str(), [=](benchmark::State& state) {
          static const PackedMatrix cached = random_nvfp4(256);
          static const PackedMatrix large = random_nvfp4(128 * 1024);
          tiles(state, *kernels, memory ? large : cached, rows);
        });
        benchmark::RegisterBenchmark(("bf16/" + name).c_str(), [=](benchmark::State& state) {
          static const PackedMatrix cached = random_bf16(128);
          static const PackedMatrix large = random_bf16(32 * 1024);
          tiles(state, *kernels, memory ? large : cached, rows);
        });
      }
    }
  }
  return 0;
}

[[maybe_unused]] const int kRegistered = register_all();

}  // namespace
}  // namespace tagalong::kernels
