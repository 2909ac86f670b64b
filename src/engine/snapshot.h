// A copy of a plain struct that one thread writes and any thread reads, without locks: a reader that meets a
// write tries again, the writer never waits. Whole copies only: all fields are of the same moment.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace tagalong::engine {

template <typename T>
class Snapshot {
  static_assert(std::is_trivially_copyable_v<T>, "copied word by word");
  using Words = std::array<std::uint64_t, (sizeof(T) + 7) / 8>;

 public:
  Snapshot() { store(T{}); }

  void store(const T& value) {
    Words words{};
    std::memcpy(words.data(), &value, sizeof(T));
    const std::uint64_t version = version_.load(std::memory_order_relaxed);
    version_.store(version + 1, std::memory_order_relaxed);
    // Release and acquire on every word rather than fences: a reader that sees a new word also sees that the
    // version is odd.
    for (std::size_t i = 0; i < words.size(); ++i) words_[i].store(words[i], std::memory_order_release);
    version_.store(version + 2, std::memory_order_release);
  }

  T load() const {
    for (;;) {
      const std::uint64_t before = version_.load(std::memory_order_acquire);
      Words words;
      for (std::size_t i = 0; i < words.size(); ++i) words[i] = words_[i].load(std::memory_order_acquire);
      if (before % 2 == 0 && version_.load(std::memory_order_relaxed) == before) {
        T value;
        std::memcpy(static_cast<void*>(&value), words.data(), sizeof(T));
        return value;
      }
    }
  }

 private:
  std::atomic<std::uint64_t> version_{0};
  std::array<std::atomic<std::uint64_t>, std::tuple_size_v<Words>> words_{};
};

}  // namespace tagalong::engine
