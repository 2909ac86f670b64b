#include "nn/gated_experts.h"

#include <cmath>
#include <list>

#include "kernels/tuning_testing.h"
#include "nn/nn_testing.h"

namespace tagalong::nn {
namespace {

using routing::PlanEntry;
using tensor::Format;

constexpr int kHidden = 48;
constexpr int kRows = 13;

struct Experts {
  std::list<TestWeight> buffers;
  std::vector<GatedWeights> weights;

  // intermediate: units of each network.
  Experts(Format format, const std::vector<int>& intermediate, const kernels::Packing& packing = {}) {
    std::uint32_t seed = 1;
    for (const int units : intermediate) {
      const auto& gate = buffers.emplace_back(format, units, kHidden, seed++);
      const auto& up = buffers.emplace_back(format, units, kHidden, seed++);
      const auto& down = buffers.emplace_back(format, kHidden, units, seed++);
      weights.emplace_back(gate.view, up.view, down.view, packing);
    }
  }
};

std::vector<float> run(const Experts& experts, const std::vector<std::vector<PlanEntry>>& entries,
                       base::ThreadPool& pool, const std::vector<float>& x,
                       const kernels::Tuning& tuning = {}) {
  std::vector<ExpertGroup> groups;
  int count = 0;
  for (std::size_t e = 0; e < entries.size(); ++e) {
    if (entries[e].empty()) continue;
    groups.push_back({&experts.weights[e], entries[e]});
    count += static_cast<int>(entries[e].size());
  }
  const int rows = static_cast<int>(x.size()) / kHidden;
  GatedWorkspace workspace(rows, kHidden, count, 96, static_cast<int>(groups.size()));
  // What earlier layers left in the buffers must not matter.
  for (int r = 0; r < count; ++r) {
    const std::vector<float> nan(96, NAN);
    workspace.quantized_activations.write(kernels::select_kernels("auto"), r, 0, nan.data(), 96);
  }
  std::vector<float> out(x.size(), 99.0F);
  apply_gated_experts({kernels::select_kernels("auto"), pool, tuning}, groups, x.data(), rows, kHidden,
                      workspace, out.data());
  return out;
}

std::vector<float> run(const Experts& experts, const std::vector<std::vector<PlanEntry>>& entries,
                       int threads, const std::vector<float>& x, const kernels::Tuning& tuning = {}) {
  base::ThreadPool pool(threads);
  return run(experts, entries, pool, x, tuning);
}

// Rows spread over three experts of unequal width; row 12 is in none.
std::vector<std::vector<PlanEntry>> some_entries() {
  std::vector<std::vector<PlanEntry>> entries(3);
  for (int r = 0; r < kRows - 1; ++r) {
    entries[static_cast<std::size_t>(r % 3)].push_back({r, 0.25F + static_cast<float>(r)});
    if (r % 2 == 0) entries[static_cast<std::size_t>((r + 1) % 3)].push_back({r, 0.5F});
  }
  return entries;
}

TEST(GatedExperts, SumsTheWeightedNetworksOfEachRow) {
  for (const Format format : {Format::kF32, Format::kBF16, Format::kNVFP4}) {
    const Experts experts(format, {32, 80, 96});
    const auto x = normals(kRows * kHidden, 4);
    const auto entries = some_entries();
    const auto out = run(experts, entries, 2, x);
    std::vector<double> expected(out.size());
    std::vector<double> size(out.size());
    auto buffer = experts.buffers.begin();
    for (const auto& list : entries) {
      const TestWeight& gate = *buffer++;
      const TestWeight& up = *buffer++;
      const TestWeight& down = *buffer++;
      const int units = static_cast<int>(gate.view.shape[0]);
      for (const auto [row, weight] : list) {
        for (int u = 0; u < units; ++u) {
          double g = 0;
          double v = 0;
          for (int k = 0; k < kHidden; ++k) {
            g += gate.at(u, k) * x[static_cast<std::size_t>(row * kHidden + k)];
            v += up.at(u, k) * x[static_cast<std::size_t>(row * kHidden + k)];
          }
          const double activation = g / (1 + std::exp(-g)) * v;
          for (int o = 0; o < kHidden; ++o) {
            const double term = weight * down.at(o, u) * activation;
            expected[static_cast<std::size_t>(row * kHidden + o)] += term;
            size[static_cast<std::size_t>(row * kHidden + o)] += std::fabs(term);
          }
        }
      }
    }
    for (std::size_t i = 0; i < out.size(); ++i) {
      // Plain formats: a chain of 48, then 96 roundings. NVFP4: the two roundings to int8 by at most a
      // 127th of the largest, seen against the sum of magnitudes with the room of gate's and up's product.
      const double relative = format == Format::kNVFP4 ? 0.05 : 200 * 0x1p-24;
      EXPECT_NEAR(out[i], expected[i], relative * (size[i] + 1e-3))
          << tensor::format_name(format) << " " << i;
    }
    for (std::size_t i = 12 * kHidden; i < out.size(); ++i) EXPECT_EQ(out[i], 0.0F);
  }
}

TEST(GatedExperts, InvarianceUnderThreadsAndNeighbours) {
  for (const Format format : {Format::kF32, Format::kBF16, Format::kNVFP4}) {
    const Experts experts(format, {32, 80, 96});
    const auto x = normals(kRows * kHidden, 4);
    const auto whole = run(experts, some_entries(), 1, x);
    for (const int threads : {2, 3, 4})
      EXPECT_TRUE(same_bits(run(experts, some_entries(), threads, x), whole));
    for (int r = 0; r < kRows - 1; ++r) {
      std::vector<std::vector<PlanEntry>> alone(3);
      const auto entries = some_entries();
      for (std::size_t e = 0; e < 3; ++e) {
        for (const auto [row, weight] : entries[e]) {
          if (row == r) alone[e].push_back({0, weight});
        }
      }
      const std::vector<float> row(x.begin() + r * kHidden, x.begin() + (r + 1) * kHidden);
      const std::vector<float> expected(whole.begin() + r * kHidden, whole.begin() + (r + 1) * kHidden);
      EXPECT_TRUE(same_bits(run(experts, alone, 2, row), expected))
          << tensor::format_name(format) << " row " << r;
    }
  }
}

TEST(GatedExperts, InvarianceUnderTuning) {
  for (const Format format : {Format::kF32, Format::kBF16, Format::kNVFP4}) {
    const Experts experts(format, {32, 80, 96});
    const auto x = normals(kRows * kHidden, 4);
    const auto expected = run(experts, some_entries(), 1, x);
    std::mt19937 random(5);
    for (int trial = 0; trial < 60; ++trial) {
      const kernels::Tuning tuning = kernels::random_tuning(random);
      ASSERT_EQ(kernels::parse_tuning(kernels::to_string(tuning)), tuning);  // a setting that may occur
      const int threads = 1 + trial % 4;
      EXPECT_TRUE(same_bits(run(experts, some_entries(), threads, x, tuning), expected))
          << tensor::format_name(format) << " trial " << trial << ", " << threads << " threads";
    }
  }
}

// Pools of one to four nodes, with the memory in parts to match and without, under any tuning.
TEST(GatedExperts, InvarianceUnderNodes) {
  for (const Format format : {Format::kF32, Format::kBF16, Format::kNVFP4}) {
    const Experts whole(format, {32, 80, 96});
    const auto x = normals(kRows * kHidden, 4);
    const auto expected = run(whole, some_entries(), 1, x);
    std::mt19937 random(6);
    for (const auto& workers : kSomeCrews) {
      base::ThreadPool pool(crews_of(workers));
      const auto arena = std::make_shared<base::Arena>(base::Pages::kNormal, pool.crews());
      const Experts parted(format, {32, 80, 96}, {.arena = arena});
      EXPECT_TRUE(same_bits(run(parted, some_entries(), 2, x), expected)) << "another pool than the arena's";
      for (int trial = 0; trial < 10; ++trial) {
        const kernels::Tuning tuning = kernels::random_tuning(random);
        EXPECT_TRUE(same_bits(run(whole, some_entries(), pool, x, tuning), expected))
            << workers.size() << " nodes, " << kernels::to_string(tuning);
        EXPECT_TRUE(same_bits(run(parted, some_entries(), pool, x, tuning), expected))
            << workers.size() << " nodes, " << kernels::to_string(tuning);
      }
    }
  }
}

}  // namespace
}  // namespace tagalong::nn
