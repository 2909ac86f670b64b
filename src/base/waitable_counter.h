// A number that one thread raises and other threads wait for: they spin for a moment, then sleep in the
// kernel. It lies on a cache line of its own, so that waiting costs its writer one transfer of that line.
//
// Numbers wrap around: a wait ends when the counter is less than 2^31 past what was asked for. Never throws,
// allocates nothing.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/aligned_buffer.h"

namespace tagalong::base {

class alignas(kCacheLine) WaitableCounter {
 public:
  // By one thread at a time. What it wrote before is visible to whoever has waited for the value.
  void raise(std::uint32_t value);
  // Returns once the counter has reached `value`. Any number of threads.
  void wait(std::uint32_t value) const;

 private:
  static bool reached(std::uint32_t now, std::uint32_t value) {
    return static_cast<std::int32_t>(now - value) >= 0;
  }

  std::atomic<std::uint32_t> value_{0};
  mutable std::atomic<std::uint32_t> sleepers_{0};  // asleep, or about to be
};

}  // namespace tagalong::base
