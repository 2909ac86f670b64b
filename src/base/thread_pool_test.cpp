#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "base/cpu_info.h"

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

TEST(ThreadPool, PhasesSeeWhatEarlierPhasesWrote) {
  for (const int threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads);
    for (const Schedule schedule : {Schedule::kStatic, Schedule::kStealing}) {
      for (const int workers : {0, 1, 2, 9}) {
        std::vector<int> first(37);
        std::vector<int> second(11);
        int third = 0;
        auto write = [&](int task, int) { ++first[static_cast<std::size_t>(task)]; };
        auto sum = [&](int task, int) {
          second[static_cast<std::size_t>(task)] += std::accumulate(first.begin(), first.end(), task);
        };
        auto total = [&](int, int) { third += std::accumulate(second.begin(), second.end(), 0); };
        auto never = [&](int, int) { third = -1000000; };
        const std::array phases{Phase{37, write, schedule, workers}, Phase{0, never, schedule, workers},
                                Phase{11, sum, schedule, workers}, Phase{1, total, schedule, workers}};
        int expected_third = 0;
        int expected_sum = 0;
        for (int round = 1; round <= 30; ++round) {
          pool.run_phases(phases);
          expected_sum += 11 * 37 * round + 55;
          expected_third += expected_sum;
          ASSERT_EQ(third, expected_third) << threads << " threads, " << workers << ", round " << round;
        }
      }
    }
  }
}

// Worker 0's first task lasts until all other tasks have been run, which only the other worker can do.
TEST(ThreadPool, IdleWorkersTakeTheRestOfAnothersRange) {
  ThreadPool pool(2);
  std::atomic<int> done = 0;
  std::vector<int> count(20);
  auto body = [&](int task, int) {
    ++count[static_cast<std::size_t>(task)];
    if (task == 0) {
      while (done.load() < 19) std::this_thread::yield();
    } else {
      ++done;
    }
  };
  const std::array phases{Phase{20, body, Schedule::kStealing}};
  pool.run_phases(phases);
  EXPECT_EQ(count, std::vector<int>(20, 1));
}

TEST(ThreadPool, APhaseKeepsToItsWorkers) {
  ThreadPool pool(4);
  for (const Schedule schedule : {Schedule::kStatic, Schedule::kStealing}) {
    std::vector<int> owner(12, -1);
    auto body = [&](int task, int worker) { owner[static_cast<std::size_t>(task)] = worker; };
    const std::array phases{Phase{12, body, schedule, 2}};
    pool.run_phases(phases);
    EXPECT_GE(*std::min_element(owner.begin(), owner.end()), 0);
    EXPECT_LT(*std::max_element(owner.begin(), owner.end()), 2);
  }
}

// Three crews, of two, one and three workers.
NodeCrews some_crews() { return NodeCrews(std::vector<NodeCrews::Crew>{{0, 2}, {1, 1}, {2, 3}}); }

TEST(ThreadPool, StaticTasksOfACrewAreRunByItsWorkers) {
  ThreadPool pool(some_crews());
  ASSERT_EQ(pool.size(), 6);
  const std::array crew_tasks{0, 5, 5, 12};  // the second crew has none
  std::vector<int> owner(12, -1);
  auto body = [&](int task, int worker) { owner[static_cast<std::size_t>(task)] = worker; };
  const auto run = [&](int workers) {
    const std::array phases{Phase{12, body, Schedule::kStatic, workers, crew_tasks}};
    pool.run_phases(phases);
    return owner;
  };
  EXPECT_EQ(run(0), (std::vector<int>{0, 0, 1, 1, 1, 3, 3, 4, 4, 5, 5, 5}));
  EXPECT_EQ(run(6), (std::vector<int>{0, 0, 1, 1, 1, 3, 3, 4, 4, 5, 5, 5}));
  EXPECT_EQ(run(4), (std::vector<int>{0, 0, 0, 0, 0, 3, 3, 3, 4, 4, 4, 4}));  // 1, 1 and 2 of the crews
  EXPECT_EQ(run(1), (std::vector<int>{0, 0, 0, 0, 0, 3, 3, 3, 3, 3, 3, 3}));  // one of each crew at least
}

TEST(ThreadPool, CrewsRunEveryTaskExactlyOnceUnderAnySchedule) {
  ThreadPool pool(some_crews());
  for (const Schedule schedule : {Schedule::kStatic, Schedule::kStealing}) {
    for (const int workers : {0, 1, 2, 3, 5, 6, 9}) {
      for (const std::array<int, 4> crew_tasks : {std::array{0, 0, 0, 0}, std::array{0, 0, 0, 40},
                                                  std::array{0, 40, 40, 40}, std::array{0, 7, 30, 31}}) {
        std::vector<int> count(static_cast<std::size_t>(crew_tasks.back()));
        auto body = [&](int task, int) { ++count[static_cast<std::size_t>(task)]; };
        const Phase phase{crew_tasks.back(), body, schedule, workers, crew_tasks};
        const std::array phases{phase, Phase{0, body}, phase};
        for (int round = 0; round < 10; ++round) pool.run_phases(phases);
        EXPECT_EQ(count, std::vector<int>(count.size(), 20)) << workers << " workers, " << crew_tasks[1];
      }
    }
  }
}

// Worker 0, the whole first crew, waits in its first task until the second crew has done all others; a tired
// machine may leave it none.
TEST(ThreadPool, IdleCrewsTakeTheRestOfAnothers) {
  ThreadPool pool(NodeCrews(std::vector<NodeCrews::Crew>{{0, 1}, {1, 2}}));
  constexpr int kTasks = 20;
  std::atomic<int> done_by_others = 0;
  std::vector<int> times(kTasks);
  int kept = 0;  // tasks of crew 0's only worker
  auto body = [&](int task, int worker) {
    ++times[static_cast<std::size_t>(task)];
    if (worker != 0) {
      ++done_by_others;
      return;
    }
    // Stays with its first task, if it gets one at all, until the others have done the rest.
    ++kept;
    while (done_by_others.load() < kTasks - 1) std::this_thread::yield();
  };
  const std::array crew_tasks{0, 15, kTasks};
  const std::array phases{Phase{kTasks, body, Schedule::kStealing, 0, crew_tasks}};
  pool.run_phases(phases);
  EXPECT_LE(kept, 1);
  EXPECT_EQ(times, std::vector<int>(kTasks, 1));
}

TEST(ThreadPool, WithoutNodesIsOneCrew) {
  EXPECT_EQ(ThreadPool(3).crews().count(), 1);
  const ThreadPool pool = ThreadPool::for_this_machine(0, Numa::kOff);
  EXPECT_EQ(pool.crews().count(), 1);
  EXPECT_EQ(pool.crews().workers(), usable_cores());
}

// The threads of a pool that fills the machine each keep to a core of their own.
TEST(ThreadPool, IsPinnedWhereItHasAThreadForEachCore) {
  const std::vector<int> cores = physical_cores();
  std::vector<std::vector<int>> masks(cores.size());
  std::thread owner([&] {  // so that the binding ends with the test
    ThreadPool pool = ThreadPool::for_this_machine(static_cast<int>(cores.size()));
    pool.pin_caller();
    pool.run(pool.size(), [&](int, int worker) {
      cpu_set_t mask;
      CPU_ZERO(&mask);
      sched_getaffinity(0, sizeof(mask), &mask);
      for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (CPU_ISSET(cpu, &mask)) masks[static_cast<std::size_t>(worker)].push_back(cpu);
      }
    });
  });
  owner.join();
  for (std::size_t worker = 0; worker < cores.size(); ++worker) {
    EXPECT_EQ(masks[worker], std::vector<int>{cores[worker]}) << worker;
  }
}

TEST(ThreadPoolDeathTest, SaysThatATaskStartedAJobOfItsOwnPool) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto nested = [] {
    ThreadPool pool(2);
    pool.run(2, [&](int, int) { pool.run(2, [](int, int) {}); });
  };
  EXPECT_DEATH(nested(), "a task started a job of its own pool");
}

}  // namespace
}  // namespace tagalong::base
