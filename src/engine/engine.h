// Runs requests on a model: takes submissions in, batches their rows, samples, and reports each token.
//
// submit(), cancel(), stats(), wake() and close() may be called from any thread. step(), wait(), cancel_all()
// and the destructor belong to the engine's thread, and the callbacks run there. The model and the thread
// pool must outlive the engine, which is the pool's only user while it steps. It never sees text, and a step
// that only decodes neither allocates nor locks.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "cache/kv_store.h"
#include "engine/request.h"
#include "engine/routing_log.h"
#include "engine/sampler.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "engine/snapshot.h"
#include "engine/stats.h"
#include "models/batch.h"
#include "models/model.h"
#include "routing/routing_policy.h"

namespace tagalong::engine {

struct EngineOptions {
  int max_sequences = 16;      // requests that run at once
  int max_batch_tokens = 256;  // rows of one step; what decoding leaves of them goes to prompts
  int max_context = 0;         // tokens of one sequence, prompt and answer; 0: as many as the model has
  int kv_blocks = 0;           // of cache::kBlockTokens tokens; 0: enough for all sequences at full length
  cache::KvType kv_type = cache::KvType::kBF16;
  routing::RoutingPolicy policy{};  // exact by default
  // Writes down the routing of every step, on the engine's thread; for studies, since it formats text. Must
  // outlive the engine.
  routing::Recorder* recorder = nullptr;
  kernels::TuningTable tuning{};  // changes speed only
};

// The prompt leaves no room for an answer in the context. Its own type because clients get a code of its own.
class PromptTooLong : public base::InputError {
 public:
  using InputError::InputError;
};

// The engine takes no more requests: it was closed.
class EngineClosed : public std::runtime_error {
 public:
  using runtime_error::runtime_error;
};

class Engine {
 public:
  // Throws InputError for options that cannot work, alone or with this model.
  Engine(const models::Model& model, base::ThreadPool& pool, const EngineOptions& options);
  // Cancels what is in flight.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const models::ModelInfo& model_info() const { return model_.info(); }
  const EngineOptions& options() const { return options_; }  // with the zeros filled in
  // Tokens that a sequence may have, prompt and answer together.
  int max_context() const { return options_.max_context; }

  // Throws InputError naming what is wrong with the request, PromptTooLong with both numbers, or
  // EngineClosed.
  RequestId submit(Request request, TokenCallback callback);
  // Ends the request by the end of the next step; one that is not known or has ended is left alone.
  void cancel(RequestId id);
  EngineStats stats() const { return stats_.load(); }
  // Layer by layer, for any thread.
  const RoutingLog& routing_log() const { return routing_log_; }

  // Binds the calling thread, which is to be the engine's, to its core, if the pool is pinned.
  void pin_thread() const { pool_.pin_caller(); }
  // Schedules, runs and commits one batch. False when there was nothing to do.
  bool step();
  // Blocks while nothing has been submitted or cancelled since the last step, until wake().
  void wait();
  void wake();

  // No submission is accepted from now on.
  void close();
  // Ends every request now; returns how many.
  int cancel_all();

 private:
  // What a step has to tell one caller.
  struct Report {
    Sequence* sequence = nullptr;
    std::unique_ptr<Sequence> ended;  // the same, once it has left the line
    std::optional<FinishReason> finish;
    int pick = -1;  // index into picks_; -1 without a token
  };

  void check(const Request& request) const;
  void take_in();
  void sample();
  // Appends the tokens, ends what is complete, and counts.
  void commit(std::chrono::steady_clock::time_point start);
  // Takes the request out of the line, if it still stands there.
  void end(RequestId id, FinishReason reason, int pick);
  void publish();
  void report();
  std::span<const float> logits_of(std::size_t pick) const;
  std::span<TokenLogprob> top_of(std::size_t pick, const Request& request);

  const models::Model& model_;
  base::ThreadPool& pool_;
  EngineOptions options_;

  // The only door between the threads. `signals_` rises with whatever comes in, so that a step without news
  // takes no lock.
  std::mutex door_;
  std::vector<std::unique_ptr<Sequence>> submitted_;
  std::vector<RequestId> cancelled_;
  RequestId last_id_ = 0;
  bool closed_ = false;
  std::atomic<std::uint32_t> signals_{0};

  // From here on the engine's thread only, except for stats_.
  std::uint32_t seen_signals_ = 0;
  std::vector<std::unique_ptr<Sequence>> taken_in_;
  std::vector<RequestId> to_cancel_;
  Scheduler scheduler_;
  cache::KvStore kv_;
  std::unique_ptr<models::Workspace> workspace_;
  models::Batch batch_;
  RoutingLog routing_log_;
  base::AlignedBuffer<float> logits_;  // [max_sequences, vocab]
  std::vector<Sampler> samplers_;      // one for each worker of the pool
  std::vector<Sequence*> sampled_;     // [logit rows] whose next token is picked
  std::vector<TokenLogprob> picks_;    // [logit rows]
  std::vector<TokenLogprob> tops_;     // [logit rows, kMaxTopLogprobs]
  std::vector<Report> reports_;
  EngineStats counters_;
  Snapshot<EngineStats> stats_;
};

}  // namespace tagalong::engine
