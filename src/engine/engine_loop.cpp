#include "engine/engine_loop.h"

namespace tagalong::engine {

EngineLoop::EngineLoop(Engine& engine) : engine_(engine), thread_([this] { run(); }) {}

EngineLoop::~EngineLoop() { stop(); }

void EngineLoop::run() {
  engine_.pin_thread();
  while (!stop_.load(std::memory_order_acquire)) {
    // Read before the step: what was submitted before the engine was closed is then certainly seen by it.
    const bool draining = draining_.load(std::memory_order_acquire);
    if (engine_.step()) continue;
    if (draining) break;
    engine_.wait();
  }
  cancelled_at_end_ = engine_.cancel_all();
  done_.release();
}

void EngineLoop::stop() {
  engine_.close();
  stop_.store(true, std::memory_order_release);
  engine_.wake();
  if (thread_.joinable()) thread_.join();
}

bool EngineLoop::drain(std::chrono::milliseconds grace) {
  engine_.close();
  draining_.store(true, std::memory_order_release);
  engine_.wake();
  if (thread_.joinable()) static_cast<void>(done_.try_acquire_for(grace));
  stop();
  return cancelled_at_end_ == 0;
}

}  // namespace tagalong::engine
