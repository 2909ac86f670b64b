#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace tagalong::base {
namespace {

TEST(ThreadPool, RunsEveryTaskExactlyOnceInEveryLoop) {
  for (int threads : {1, 2, 3, 7}) {
    ThreadPool pool(threads);
    for (int tasks : {0, 1, 2, 5, 64, 1001}) {
      std::vector<int> count(static_cast<std::size_t>(tasks));
      for (int round = 0; round < 20; ++round) {
        pool.run(tasks, [&](int task, int) { ++count[static_cast<std::size_t>(task)]; });
      }
      for (int c : count) EXPECT_EQ(c, 20) << threads << " threads, " << tasks << " tasks";
    }
  }
}

TEST(ThreadPool, DealsContiguousRangesFixedByTheCounts) {
  ThreadPool pool(3);
  std::vector<int> owner(10, -1);
  pool.run(10, [&](int task, int worker) { owner[static_cast<std::size_t>(task)] = worker; });
  EXPECT_EQ(owner, (std::vector<int>{0, 0, 0, 1, 1, 1, 2, 2, 2, 2}));
}

TEST(ThreadPool, LoopsSeeWhatEarlierLoopsWrote) {
  ThreadPool pool(4);
  std::vector<long> values(1000, 1);
  for (int round = 0; round < 50; ++round) {
    long sum = std::accumulate(values.begin(), values.end(), 0L);
    pool.run(1000, [&](int task, int) { values[static_cast<std::size_t>(task)] = sum % 1000 + task; });
  }
  std::vector<long> expected(1000, 1);
  for (int round = 0; round < 50; ++round) {
    const long sum = std::accumulate(expected.begin(), expected.end(), 0L);
    for (std::size_t i = 0; i < 1000; ++i) expected[i] = sum % 1000 + static_cast<long>(i);
  }
  EXPECT_EQ(values, expected);
}

}  // namespace
}  // namespace tagalong::base
