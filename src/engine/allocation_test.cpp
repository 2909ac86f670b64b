// Law 6: nothing is allocated in a decode step. The test program's operator new counts.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "engine/arithmetic_model_testing.h"
#include "engine/engine.h"
#include "kernels/select.h"
#include "models/model.h"

namespace {
std::atomic<long> allocations{0};
}

void* operator new(std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  const auto unit = static_cast<std::size_t>(alignment);
  if (void* memory = std::aligned_alloc(unit, (size + unit - 1) / unit * unit)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace tagalong::engine {
namespace {

// Steps a batch of sequences that only decode; returns the allocations of all steps but the last, in which
// they end.
long allocations_of_decoding(const models::Model& model, EngineOptions options) {
  base::ThreadPool pool(2);
  Engine engine(model, pool, options);
  long tokens = 0;
  for (int i = 0; i < options.max_sequences; ++i) {
    Request request;
    request.prompt = {1, 2, i};
    request.max_tokens = 40;  // crosses block borders
    request.sampling = {.temperature = 0.25F * static_cast<float>(i), .top_k = i % 3 * 7, .top_p = 0.9F};
    request.top_logprobs = i % 4;
    request.stop_ids = {};
    engine.submit(request, [&tokens](const TokenEvent&) { ++tokens; });
  }
  engine.step();
  const long before = allocations;
  for (int step = 0; step < 38; ++step) {
    EXPECT_TRUE(engine.step());
    static_cast<void>(engine.stats());
  }
  const long during = allocations - before;
  EXPECT_TRUE(engine.step());
  EXPECT_EQ(tokens, 40L * options.max_sequences);
  return during;
}

TEST(Allocation, TheCounterCounts) {
  const long before = allocations;
  const std::vector<int> something(100);
  EXPECT_GT(allocations, before);
  EXPECT_EQ(something.size(), 100U);
}

TEST(Allocation, NoneInADecodeStep) {
  const ArithmeticModel model(64);
  EXPECT_EQ(allocations_of_decoding(model, {.max_sequences = 8, .max_batch_tokens = 64}), 0);
}

TEST(Allocation, NoneInADecodeStepOfAnyArchitecture) {
  base::ThreadPool pool(1);
  for (const char* name : {"models/storyteller", "tests/golden/qwen3_moe/nvfp4_all"}) {
    const auto directory = std::filesystem::path(TAGALONG_SOURCE_DIR) / name;
    const auto model = models::load_model(checkpoint::Checkpoint::open(directory),
                                          {.kernels = kernels::select_kernels("auto"), .pool = pool});
    for (const char* policy : {"exact", "oea:k0=3,min_rows=2"}) {
      SCOPED_TRACE(testing::Message() << name << " " << policy);
      EXPECT_EQ(
          allocations_of_decoding(
              *model, {.max_sequences = 8, .max_batch_tokens = 64, .policy = routing::parse_policy(policy)}),
          0);
    }
  }
}

}  // namespace
}  // namespace tagalong::engine
