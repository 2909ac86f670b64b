#include "base/barrier.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace tagalong::base {
namespace {

// Every member writes its place before each meeting and reads everybody's after it. Plain ints: the thread
// sanitizer sees whether the barrier orders them.
TEST(Barrier, NobodyPassesBeforeAllHaveCome) {
  for (const int members : {1, 2, 3, 4, 5, 8, 13}) {
    Barrier barrier(members);
    std::vector<int> places(static_cast<std::size_t>(members));
    std::vector<int> wrong(static_cast<std::size_t>(members));
    const auto work = [&](int member) {
      for (int meeting = 1; meeting <= 50; ++meeting) {
        places[static_cast<std::size_t>(member)] = meeting * 100 + member;
        barrier.arrive(member);
        for (int other = 0; other < members; ++other) {
          wrong[static_cast<std::size_t>(member)] +=
              places[static_cast<std::size_t>(other)] != meeting * 100 + other ? 1 : 0;
        }
        barrier.arrive(member);
      }
    };
    std::vector<std::thread> threads;
    for (int member = 1; member < members; ++member) threads.emplace_back(work, member);
    work(0);
    for (std::thread& thread : threads) thread.join();
    for (int member = 0; member < members; ++member) {
      EXPECT_EQ(wrong[static_cast<std::size_t>(member)], 0) << member << " of " << members;
    }
  }
}

// A member that comes late finds the others asleep and wakes them.
TEST(Barrier, WakesThoseWhoSleep) {
  Barrier barrier(2);
  int value = 0;
  std::thread late([&] {
    for (int i = 0; i < 5; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      ++value;
      barrier.arrive(1);
      barrier.arrive(1);
    }
  });
  for (int i = 1; i <= 5; ++i) {
    barrier.arrive(0);
    EXPECT_EQ(value, i);
    barrier.arrive(0);
  }
  late.join();
}

}  // namespace
}  // namespace tagalong::base
