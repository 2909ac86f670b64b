#include "base/waitable_counter.h"

#include <immintrin.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

namespace tagalong::base {

namespace {

// About 20 microseconds: longer than the gap between two loops of a step, shorter than what a neighbour on a
// shared machine would notice. After it the thread sleeps in the kernel.
constexpr int kSpins = 2000;

// The kernel's own wait and wake. std::atomic's are not used because libstdc++ yields the processor before it
// sleeps, and on a machine with other work each yield may cost a whole time slice: a step of forty loops then
// takes a hundred times as long.
void futex(const std::atomic<std::uint32_t>& word, int operation, std::uint32_t value) {
  static_assert(sizeof(word) == sizeof(std::uint32_t));
  syscall(SYS_futex, &word, operation | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0);
}

}  // namespace

// Sequentially consistent on both sides: either the one who raises the value sees the sleeper, or the kernel
// sees the new value and does not let it sleep.
void WaitableCounter::raise(std::uint32_t value) {
  value_.store(value);
  if (sleepers_.load() > 0) futex(value_, FUTEX_WAKE, INT_MAX);
}

void WaitableCounter::wait(std::uint32_t value) const {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (reached(value_.load(std::memory_order_acquire), value)) return;
    _mm_pause();
  }
  sleepers_.fetch_add(1);
  for (std::uint32_t now = value_.load(); !reached(now, value); now = value_.load()) {
    futex(value_, FUTEX_WAIT, now);
  }
  sleepers_.fetch_sub(1);
}

}  // namespace tagalong::base
