#include "base/barrier.h"

#include <bit>

#include "base/check.h"

namespace tagalong::base {

Barrier::Barrier(int members)
    : members_(members),
      rounds_(std::bit_width(static_cast<unsigned>(members - 1))),
      meetings_(static_cast<std::size_t>(members)),
      signals_(static_cast<std::size_t>(members) * static_cast<std::size_t>(rounds_)) {
  CHECK(members >= 1, "{} members", members);
}

void Barrier::arrive(int member) {
  const std::uint32_t meeting = ++meetings_[static_cast<std::size_t>(member)].value;
  for (int round = 0; round < rounds_; ++round) {
    const int back = (member - (1 << round) + members_) % members_;
    signals_[static_cast<std::size_t>(member * rounds_ + round)].raise(meeting);
    signals_[static_cast<std::size_t>(back * rounds_ + round)].wait(meeting);
  }
}

}  // namespace tagalong::base
