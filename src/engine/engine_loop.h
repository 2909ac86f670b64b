// The thread that steps an engine and sleeps while there is nothing to do. From its construction to stop()
// the engine's thread is this one. stop(), drain() and the destructor belong to the owner's thread.
#pragma once

#include <atomic>
#include <chrono>
#include <semaphore>
#include <thread>

#include "engine/engine.h"

namespace tagalong::engine {

class EngineLoop {
 public:
  explicit EngineLoop(Engine& engine);
  ~EngineLoop();  // stop()
  EngineLoop(const EngineLoop&) = delete;
  EngineLoop& operator=(const EngineLoop&) = delete;

  // Closes the engine, cancels what is in flight, and returns when the thread has ended. Idempotent.
  void stop();
  // Closes the engine and lets the requests in flight end by themselves, for `grace` at most; then stop().
  // True when none had to be cancelled.
  bool drain(std::chrono::milliseconds grace);

 private:
  void run();

  Engine& engine_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> draining_{false};
  std::binary_semaphore done_{0};  // released when the thread ends
  int cancelled_at_end_ = 0;       // read after the join
  std::thread thread_;
};

}  // namespace tagalong::engine
