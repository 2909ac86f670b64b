// Who packs a weight, and into which memory, changes no byte of it.
#include "kernels/packed_matrix.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "kernels/nvfp4_head.h"

namespace tagalong::kernels {
namespace {

using tensor::Format;

// Bytes that are finite numbers in any format, as values and as scales.
std::vector<std::byte> plain_bytes(std::size_t size, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(size);
  for (auto& b : bytes) b = static_cast<std::byte>(0x20 + random() % 32);
  return bytes;
}

struct PlainWeight {
  std::vector<std::byte> data;
  std::vector<std::byte> scales;
  tensor::WeightView view;

  PlainWeight(Format format, int outputs, int inputs, std::uint32_t seed) {
    view = {.name = "plain", .format = format, .shape = {outputs, inputs}};
    // Room for a float each, whatever the format.
    const auto elements = static_cast<std::size_t>(view.shape.elements());
    data = plain_bytes(4 * elements, seed);
    scales = plain_bytes(elements, seed + 1);
    view.data = data.data();
    if (block_layout(format) != nullptr) view.scales.block = scales.data();
  }
};

constexpr Format kFormats[] = {Format::kF32,   Format::kF16,   Format::kBF16, Format::kFP8,
                               Format::kNVFP4, Format::kMXFP4, Format::kQ8};

bool same(const std::byte* a, const std::byte* b, std::size_t size) { return std::memcmp(a, b, size) == 0; }

// Tiles of a matrix or pair are dense only within the part of a crew.
template <typename Packed>
bool same_tiles(const Packed& a, const Packed& b) {
  if (a.bytes() != b.bytes() || a.tiles() != b.tiles()) return false;
  const std::size_t size = a.bytes() / static_cast<std::size_t>(a.tiles());
  for (int t = 0; t < a.tiles(); ++t) {
    if (!same(a.tile(t), b.tile(t), size)) return false;
  }
  return true;
}

// Calls check(packing) for pools of several sizes, with and without an arena, with and without crews.
template <typename Check>
void with_other_packings(const Check& check) {
  for (const int threads : {1, 2, 5}) {
    base::ThreadPool pool(threads);
    check(Packing{.pool = &pool});
    const auto arena = std::make_shared<base::Arena>(base::Pages::kNormal);
    check(Packing{.arena = arena, .pool = &pool});
    check(Packing{.arena = arena});
    const base::NodeCrews crews(std::vector<base::NodeCrews::Crew>{{0, 1}, {0, 2}, {0, 1}});
    check(Packing{.arena = std::make_shared<base::Arena>(base::Pages::kNormal, crews), .pool = &pool});
  }
}

TEST(PackedMatrix, IsTheSameWhoeverPacksIt) {
  for (const Format format : kFormats) {
    for (const int outputs : {1, 16, 17, 100}) {
      const PlainWeight weight(format, outputs, 160, 7);
      const PackedMatrix alone(weight.view);
      with_other_packings([&](const Packing& packing) {
        const PackedMatrix other(weight.view, packing);
        EXPECT_TRUE(same_tiles(other, alone)) << tensor::format_name(format) << " " << outputs;
      });
    }
  }
}

TEST(PackedPair, IsTheSameWhoeverPacksIt) {
  for (const Format format : kFormats) {
    for (const int outputs : {1, 16, 17, 100}) {
      const PlainWeight gate(format, outputs, 160, 8);
      const PlainWeight up(format, outputs, 160, 9);
      const PackedPair alone(gate.view, up.view);
      with_other_packings([&](const Packing& packing) {
        const PackedPair other(gate.view, up.view, packing);
        EXPECT_TRUE(same_tiles(other, alone)) << tensor::format_name(format) << " " << outputs;
      });
    }
  }
}

// The bits of a BF16 weight are moved as they are; packed from its values it must come out the same.
TEST(PackedMatrix, MovesTheBitsOfBf16) {
  for (const int outputs : {1, 16, 21}) {
    for (const int inputs : {1, 2, 31, 160}) {
      const PlainWeight weight(Format::kBF16, outputs, inputs, 11);
      std::vector<float> values;
      for (int r = 0; r < outputs; ++r) {
        for (int k = 0; k < inputs; ++k) values.push_back(tensor::weight_at(weight.view, r, k));
      }
      const PackedMatrix moved(weight.view);
      const PackedMatrix converted(values, outputs, inputs, Format::kBF16);
      ASSERT_EQ(moved.bytes(), converted.bytes());
      EXPECT_TRUE(same(moved.tile(0), converted.tile(0), moved.bytes())) << outputs << " x " << inputs;
    }
  }
}

// The tiles of a crew lie in its region, side by side with those of other matrices.
TEST(PackedMatrix, LiesInPartsWithTheCrewsOfItsArena) {
  const base::NodeCrews crews(std::vector<base::NodeCrews::Crew>{{0, 1}, {0, 2}});
  const auto arena = std::make_shared<base::Arena>(base::Pages::kNormal, crews);
  const PlainWeight weight(Format::kNVFP4, 9 * kRowTile, 160, 7);
  const PackedMatrix first(weight.view, {.arena = arena});
  const PackedMatrix second(weight.view, {.arena = arena});
  const auto size = static_cast<std::ptrdiff_t>(first.bytes() / 9);
  for (const int tile : {1, 2, 4, 5, 6, 7, 8}) EXPECT_EQ(first.tile(tile) - first.tile(tile - 1), size);
  // Each in the line behind the other.
  for (const auto gap : {second.tile(0) - (first.tile(2) + size), second.tile(3) - (first.tile(8) + size)}) {
    EXPECT_TRUE(gap >= 0 && gap < 64) << gap;
  }
}

// Scales of all magnitudes, which five bits cannot tell apart.
TEST(PackedMatrix, KeepsWhatDoesNotFitBehindTheTile) {
  PlainWeight weight(Format::kNVFP4, 4 * kRowTile, 320, 7);
  const auto blocks = static_cast<std::ptrdiff_t>(320 / kNvfp4Inputs);
  const auto groups = static_cast<std::ptrdiff_t>(320 / kGroup);
  const std::ptrdiff_t size = blocks * kNvfp4Bytes;
  const PackedMatrix all_short(weight.view);
  EXPECT_EQ(all_short.bytes(), static_cast<std::size_t>(4 * size));
  // Rows 20 and 47, blocks 1 and 3 of the former and 4 of the latter.
  for (const std::ptrdiff_t group : {20 * groups + 5, 20 * groups + 12, 47 * groups + 19}) {
    weight.scales[static_cast<std::size_t>(group)] = std::byte{1};
  }
  with_other_packings([&](const Packing& packing) {
    const PackedMatrix packed(weight.view, packing);
    EXPECT_EQ(packed.bytes(), static_cast<std::size_t>(4 * size + 3 * kNvfp4Scales));
    for (const int tile : {0, 3}) EXPECT_TRUE(same(packed.tile(tile), all_short.tile(tile), size));
    for (int tile = 0; tile < 4; ++tile) {
      const std::byte* end = packed.tile(tile) + size;
      for (int b = 0; b < blocks; ++b) {
        const auto& head = *reinterpret_cast<const Nvfp4Head*>(packed.tile(tile) + b * kNvfp4Bytes);
        const bool plain = (tile == 1 && (b == 1 || b == 3)) || (tile == 2 && b == 4);
        EXPECT_EQ(head.least == 0, plain) << tile << " " << b;
        for (int i = 0; i < kNvfp4Scales; ++i) {
          const auto group = (tile * kRowTile + i % kRowTile) * groups + b * 4 + i / kRowTile;
          EXPECT_EQ(std::byte{scale_at(head, end, i)}, weight.scales[static_cast<std::size_t>(group)]);
        }
      }
    }
  });
}

}  // namespace
}  // namespace tagalong::kernels
