// An owning, zero-initialised, 64-byte-aligned array. Not copyable; the owner decides about threads.
//
// It has its own memory, with huge pages if it is large: weights are streamed, and page walks cost about a
// tenth. Or it is cut from an arena, which it then keeps alive.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "base/arena.h"

namespace tagalong::base {

inline constexpr std::size_t kCacheLine = 64;

namespace detail {
// Zeroed memory aligned to a cache line. Throws std::bad_alloc.
void* allocate_aligned(std::size_t bytes);
void free_aligned(void* data) noexcept;

struct FreeAligned {
  std::shared_ptr<Arena> arena;  // null: the memory is the buffer's own

  void operator()(void* data) const noexcept {
    if (arena == nullptr) free_aligned(data);
  }
};
}  // namespace detail

template <typename T>
class AlignedBuffer {
  static_assert(std::is_trivially_copyable_v<T>, "elements are raw numbers");

 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(std::size_t size)
      : data_(size == 0 ? nullptr : static_cast<T*>(detail::allocate_aligned(size * sizeof(T)))),
        size_(size) {}
  // From the arena, of a crew's region; without one, as above.
  AlignedBuffer(std::size_t size, std::shared_ptr<Arena> arena, int crew = 0) : size_(size) {
    if (arena == nullptr || size == 0) {
      *this = AlignedBuffer(size);
    } else {
      T* data = static_cast<T*>(arena->allocate(size * sizeof(T), crew));
      data_ = {data, detail::FreeAligned{std::move(arena)}};
    }
  }

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) { return data_.get()[i]; }
  const T& operator[](std::size_t i) const { return data_.get()[i]; }
  std::span<T> span() { return {data_.get(), size_}; }
  std::span<const T> span() const { return {data_.get(), size_}; }

 private:
  std::unique_ptr<T, detail::FreeAligned> data_;
  std::size_t size_ = 0;
};

}  // namespace tagalong::base
