// A barrier for a fixed crew of threads, made for microseconds.
//
// Dissemination: in round r a member tells the member 2^r places on that it has come, and waits to be told by
// the one 2^r places back. After log2(n) rounds everyone has heard of everyone. No word has two writers, so
// nothing is contended: two threads meet in the time of one cache line's transfer. With members numbered as
// their cores lie in the machine, the early rounds stay among neighbours. The rounds' values count the
// meetings, which takes the part of a reversing sense: nothing is ever reset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/waitable_counter.h"

namespace tagalong::base {

class Barrier {
 public:
  explicit Barrier(int members);

  // Returns once all members have called it as often as this one. What they wrote before is visible then.
  void arrive(int member);

 private:
  struct alignas(kCacheLine) Count {
    std::uint32_t value = 0;  // meetings that the member has come to; its own
  };

  int members_;
  int rounds_;
  std::vector<Count> meetings_;           // [members]
  std::vector<WaitableCounter> signals_;  // [members, rounds], each written by its member
};

}  // namespace tagalong::base
