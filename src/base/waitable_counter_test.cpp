#include "base/waitable_counter.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace tagalong::base {
namespace {

TEST(WaitableCounter, WaitsAcrossTheWrapAround) {
  WaitableCounter counter;
  counter.raise(0x7FFFFFFFU);
  counter.raise(0xFFFFFFFEU);
  counter.wait(0xFFFFFFF0U);  // has been reached
  int written = 0;
  std::thread writer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // long enough for the waiter to sleep
    counter.raise(0xFFFFFFFFU);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    written = 1;
    counter.raise(1);
  });
  counter.wait(0);  // 1 is past it
  EXPECT_EQ(written, 1);
  writer.join();
}

}  // namespace
}  // namespace tagalong::base
