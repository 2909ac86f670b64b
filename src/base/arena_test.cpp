#include "base/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/thread_pool.h"

namespace tagalong::base {
namespace {

TEST(Arena, GivesDistinctZeroedAlignedMemoryToAllThreads) {
  for (const Pages pages : {Pages::kNormal, Pages::kHuge}) {
    Arena arena(pages);
    constexpr int kCount = 200;
    std::vector<unsigned char*> pieces(kCount);
    const auto size = [](int i) { return static_cast<std::size_t>(1 + i * 37 % 5000); };
    std::vector<int> dirty(kCount);
    ThreadPool pool(3);
    pool.run(kCount, [&](int i, int) {
      auto* piece = static_cast<unsigned char*>(arena.allocate(size(i)));
      pieces[i] = piece;
      dirty[i] = std::any_of(piece, piece + size(i), [](unsigned char b) { return b != 0; }) ? 1 : 0;
      std::memset(piece, i, size(i));
    });
    for (int i = 0; i < kCount; ++i) {
      EXPECT_EQ(dirty[i], 0) << i;
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pieces[i]) % kCacheLine, 0U) << i;
      EXPECT_TRUE(std::all_of(pieces[i], pieces[i] + size(i), [i](unsigned char b) {
        return b == static_cast<unsigned char>(i);
      })) << i;
    }
  }
}

TEST(Arena, GrowsPastItsChunksAndRefusesTheImpossible) {
  Arena arena(Pages::kNormal);
  auto* small = static_cast<unsigned char*>(arena.allocate(100));
  auto* large = static_cast<unsigned char*>(arena.allocate(std::size_t{300} << 20));
  large[(std::size_t{300} << 20) - 1] = 7;
  small[99] = 8;
  auto* next = static_cast<unsigned char*>(arena.allocate(std::size_t{200} << 20));
  next[(std::size_t{200} << 20) - 1] = 9;
  EXPECT_EQ(large[(std::size_t{300} << 20) - 1], 7);
  EXPECT_THROW(arena.allocate(SIZE_MAX), std::bad_alloc);
  EXPECT_THROW(arena.allocate(std::size_t{1} << 62), std::bad_alloc);
}

TEST(Arena, KeepsTheBuffersOfEachCrewTogether) {
  const NodeCrews crews(std::vector<NodeCrews::Crew>{{0, 2}, {1, 1}});
  auto arena = std::make_shared<Arena>(Pages::kNormal, crews);
  std::vector<AlignedBuffer<unsigned char>> buffers;
  for (int i = 0; i < 20; ++i) {
    auto& buffer = buffers.emplace_back(std::size_t{64}, arena, i % 2);
    for (std::size_t k = 0; k < buffer.size(); ++k) EXPECT_EQ(std::exchange(buffer[k], i), 0);
  }
  for (std::size_t i = 2; i < buffers.size(); ++i) {
    EXPECT_EQ(buffers[i].data(), buffers[i - 2].data() + 64);  // dense within a crew
  }
  for (int i = 0; i < 20; ++i) EXPECT_EQ(buffers[static_cast<std::size_t>(i)][63], i);
}

TEST(Arena, LivesAsLongAsABufferOfIt) {
  auto arena = std::make_shared<Arena>(Pages::kHuge);
  AlignedBuffer<int> buffer(1000, arena);
  arena.reset();
  for (int i = 0; i < 1000; ++i) buffer[i] += i;
  const AlignedBuffer<int> moved = std::move(buffer);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(moved[i], i);
}

}  // namespace
}  // namespace tagalong::base
