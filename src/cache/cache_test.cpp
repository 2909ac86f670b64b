#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "base/error.h"
#include "cache/block_pool.h"
#include "cache/kv_store.h"

namespace tagalong::cache {
namespace {

TEST(BlockPool, HandsOutEachBlockOnce) {
  BlockPool pool(5);
  std::set<std::int32_t> blocks;
  for (int i = 0; i < 5; ++i) blocks.insert(pool.allocate());
  EXPECT_EQ(blocks, (std::set<std::int32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(pool.allocate(), -1);
  pool.release(3);
  EXPECT_EQ(pool.free_blocks(), 1);
  EXPECT_EQ(pool.allocate(), 3);
}

TEST(BlockPoolDeathTest, RefusesABlockThatIsNotHeld) {
  BlockPool pool(2);
  EXPECT_DEATH(pool.release(0), "block 0 of 2");
  EXPECT_DEATH(pool.release(2), "block 2 of 2");
}

TEST(BlockTable, MapsPositionsThroughItsBlocks) {
  const BlockTable table{.blocks = {7, 2}};
  EXPECT_EQ(table.slot(0), 7 * kBlockTokens);
  EXPECT_EQ(table.slot(15), 7 * kBlockTokens + 15);
  EXPECT_EQ(table.slot(16), 2 * kBlockTokens);
}

TEST(KvStore, KeepsEveryPlaneApart) {
  const std::vector<int> widths{3, 5};
  KvStore store(widths, 2, KvType::kF32);
  EXPECT_EQ(store.slots(), 2 * kBlockTokens);
  for (std::int32_t slot = 0; slot < store.slots(); ++slot) {
    const float base = static_cast<float>(slot) * 10;
    store.write(0, slot, std::vector<float>{base, base + 1, base + 2});
    store.write(1, slot, std::vector<float>{-base, -base - 1, -base - 2, -base - 3, -base - 4});
  }
  const auto* first = reinterpret_cast<const float*>(store.plane(0));
  const auto* second = reinterpret_cast<const float*>(store.plane(1));
  for (int slot = 0; slot < store.slots(); ++slot) {
    EXPECT_EQ(first[slot * 3 + 2], static_cast<float>(slot) * 10 + 2);
    EXPECT_EQ(second[slot * 5 + 4], -static_cast<float>(slot) * 10 - 4);
  }
}

TEST(KvStore, RoundsToBf16OnWrite) {
  const std::vector<int> widths{2};
  KvStore store(widths, 1, KvType::kBF16);
  store.write(0, 1, std::vector<float>{1.00390625F, -3.0F});  // 1 + 2^-8 ties to 1
  const auto* bits = reinterpret_cast<const std::uint16_t*>(store.plane(0));
  EXPECT_EQ(bits[2], 0x3F80);
  EXPECT_EQ(bits[3], 0xC040);
}

TEST(KvStore, RoundsToE4m3OnWriteAndCutsOff) {
  const std::vector<int> widths{4};
  KvStore store(widths, 1, KvType::kF8);
  store.write(0, 1, std::vector<float>{1.0625F, -3.0F, 1000.0F, NAN});  // 1 + 2^-4 ties to 1
  const auto* codes = reinterpret_cast<const std::uint8_t*>(store.plane(0));
  EXPECT_EQ(codes[4], 0x38);
  EXPECT_EQ(codes[5], 0xC4);
  EXPECT_EQ(codes[6], 0x7E);
  EXPECT_EQ(codes[7] & 0x7F, 0x7F);
}

TEST(KvType, NamesTheBadValue) {
  EXPECT_EQ(parse_kv_type("bf16"), KvType::kBF16);
  EXPECT_EQ(parse_kv_type("fp8"), KvType::kF8);
  EXPECT_THROW(parse_kv_type("int8"), base::InputError);
}

}  // namespace
}  // namespace tagalong::cache
