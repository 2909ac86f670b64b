#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <string_view>
#include <utility>

namespace tagalong::engine {

namespace {

constexpr int kMostBlocks =
    std::numeric_limits<int>::max() / cache::kBlockTokens;  // slots are counted in int

void check_range(std::string_view name, int value, int least, int most) {
  if (value < least || value > most) {
    throw base::input_error("{} is {}, expected {} to {}", name, value, least, most);
  }
}

// Checks what the operator chose and fills in what was left to the engine.
EngineOptions complete(EngineOptions options, const models::ModelInfo& info) {
  check_range("max_sequences", options.max_sequences, 1, 1 << 16);
  check_range("max_batch_tokens", options.max_batch_tokens, options.max_sequences, 1 << 20);
  check_range("kv_blocks", options.kv_blocks, 0, kMostBlocks);
  if (options.max_context == 0) {
    options.max_context = info.max_context;
    if (options.kv_blocks > 0) {
      options.max_context = std::min(options.max_context, options.kv_blocks * cache::kBlockTokens);
    }
  }
  check_range("max_context", options.max_context, 2, info.max_context);
  const int least_blocks = cache::blocks_for(options.max_context);
  if (options.kv_blocks == 0) {
    options.kv_blocks = static_cast<int>(
        std::min<std::int64_t>(std::int64_t{options.max_sequences} * least_blocks, kMostBlocks));
  }
  check_range("kv_blocks", options.kv_blocks, least_blocks, kMostBlocks);
  return options;
}

std::size_t size(int n) { return static_cast<std::size_t>(n); }

}  // namespace

Engine::Engine(const models::Model& model, base::ThreadPool& pool, const EngineOptions& options)
    : model_(model),
      pool_(pool),
      options_(complete(options, model.info())),
      scheduler_({.max_sequences = options_.max_sequences,
                  .max_batch_tokens = options_.max_batch_tokens,
                  .kv_blocks = options_.kv_blocks}),
      kv_(model.info().kv_planes, options_.kv_blocks, options_.kv_type),
      workspace_(model.make_workspace({.rows = options_.max_batch_tokens,
                                       .logit_rows = options_.max_sequences,
                                       .workers = pool.size(),
                                       .policy = options_.policy})),
      routing_log_(model.info(), options_.recorder),
      logits_(size(options_.max_sequences) * size(model.info().vocab)),
      picks_(size(options_.max_sequences)),
      tops_(size(options_.max_sequences) * kMaxTopLogprobs) {
  batch_.ids.reserve(size(options_.max_batch_tokens));
  batch_.positions.reserve(size(options_.max_batch_tokens));
  batch_.sequences.reserve(size(options_.max_batch_tokens));
  batch_.roles.reserve(size(options_.max_batch_tokens));
  batch_.tables.reserve(size(options_.max_sequences));
  batch_.logit_rows.reserve(size(options_.max_sequences));
  sampled_.reserve(size(options_.max_sequences));
  reports_.reserve(size(options_.max_sequences));
  for (int worker = 0; worker < pool.size(); ++worker) samplers_.emplace_back(model.info().vocab);
  publish();
}

Engine::~Engine() {
  close();
  cancel_all();
}

void Engine::check(const Request& request) const {
  const int vocab = model_.info().vocab;
  const auto check_id = [vocab](std::string_view what, std::int32_t id) {
    if (id < 0 || id >= vocab) {
      throw base::input_error("{} {} is outside the vocabulary of {} tokens", what, id, vocab);
    }
  };
  if (request.prompt.empty()) throw base::input_error("the prompt has no tokens");
  if (request.prompt.size() >= size(max_context())) {
    throw PromptTooLong(fmt::format("the prompt has {} tokens, but the context holds {}, the answer included",
                                    request.prompt.size(), max_context()));
  }
  for (const std::int32_t id : request.prompt) check_id("prompt token", id);
  for (const std::int32_t id : request.stop_ids) check_id("stop token", id);
  if (request.max_tokens < 1) {
    throw base::input_error("max_tokens is {}, expected 1 or more", request.max_tokens);
  }
  check_range("top_logprobs", request.top_logprobs, 0, std::min(kMaxTopLogprobs, vocab));
  validate(request.sampling);
}

RequestId Engine::submit(Request request, TokenCallback callback) {
  check(request);
  auto sequence = std::make_unique<Sequence>();
  sequence->prompt_tokens = static_cast<int>(request.prompt.size());
  sequence->limit =
      sequence->prompt_tokens + std::min(request.max_tokens, max_context() - sequence->prompt_tokens);
  // All that the sequence will ever need, so that no step allocates for it.
  sequence->tokens = std::move(request.prompt);
  sequence->tokens.reserve(size(sequence->limit));
  sequence->table.blocks.reserve(size(cache::blocks_for(sequence->limit)));
  sequence->request = std::move(request);
  sequence->callback = std::move(callback);

  RequestId id = 0;
  {
    const std::lock_guard lock(door_);
    if (closed_) throw EngineClosed("the engine takes no more requests");
    id = sequence->id = ++last_id_;
    submitted_.push_back(std::move(sequence));
  }
  wake();
  return id;
}

void Engine::cancel(RequestId id) {
  {
    const std::lock_guard lock(door_);
    cancelled_.push_back(id);
  }
  wake();
}

void Engine::wake() {
  signals_.fetch_add(1, std::memory_order_release);
  signals_.notify_one();
}

void Engine::wait() { signals_.wait(seen_signals_, std::memory_order_acquire); }

void Engine::close() {
  const std::lock_guard lock(door_);
  closed_ = true;
}

bool Engine::step() {
  const auto start = std::chrono::steady_clock::now();
  take_in();
  if (scheduler_.schedule(batch_)) {
    const models::StepContext context{.pool = pool_,
                                      .kv = kv_,
                                      .policy = options_.policy,
                                      .routing = &routing_log_,
                                      .observer = nullptr,
                                      .tuning = options_.tuning.for_rows(batch_.rows())};
    routing_log_.begin(batch_, counters_.steps);
    model_.forward(batch_, context, *workspace_, logits_.span());
    sample();
    commit(start);
  } else if (reports_.empty()) {
    return false;
  }
  publish();
  report();
  return true;
}

void Engine::take_in() {
  const std::uint32_t signals = signals_.load(std::memory_order_acquire);
  if (signals == seen_signals_) return;
  seen_signals_ = signals;
  {
    const std::lock_guard lock(door_);
    taken_in_.swap(submitted_);
    to_cancel_.swap(cancelled_);
  }
  counters_.submitted += taken_in_.size();
  for (auto& sequence : taken_in_) scheduler_.add(std::move(sequence));
  for (const RequestId id : to_cancel_) end(id, FinishReason::kCancelled, -1);
  taken_in_.clear();
  to_cancel_.clear();
}

std::span<TokenLogprob> Engine::top_of(std::size_t pick, const Request& request) {
  return std::span(tops_).subspan(pick * kMaxTopLogprobs, size(request.top_logprobs));
}

std::span<const float> Engine::logits_of(std::size_t pick) const {
  const std::size_t vocab = size(model_.info().vocab);
  return logits_.span().subspan(pick * vocab, vocab);
}

void Engine::sample() {
  sampled_.clear();
  for (const Scheduler::Part& part : scheduler_.parts()) {
    if (part.wants_logits) sampled_.push_back(part.sequence);
  }
  pool_.run(static_cast<int>(sampled_.size()), [&](int task, int worker) {
    const std::size_t row = size(task);
    const Sequence& sequence = *sampled_[row];
    picks_[row] = samplers_[size(worker)].pick(logits_of(row), sequence.request.sampling, sequence.size(),
                                               top_of(row, sequence.request));
  });
}

void Engine::commit(std::chrono::steady_clock::time_point start) {
  int prefill_rows = 0;
  int pick = 0;
  for (const Scheduler::Part& part : scheduler_.parts()) {
    Sequence& sequence = *part.sequence;
    if (!sequence.decoding()) prefill_rows += part.rows;
    if (!std::exchange(sequence.admitted, true)) counters_.prompt_tokens += size(sequence.prompt_tokens);
    sequence.computed += part.rows;
    if (!part.wants_logits) continue;
    const std::int32_t id = picks_[size(pick)].id;
    const auto& stop_ids = sequence.request.stop_ids;
    sequence.tokens.push_back(id);
    if (std::find(stop_ids.begin(), stop_ids.end(), id) != stop_ids.end()) {
      end(sequence.id, FinishReason::kStop, pick);
    } else if (sequence.size() == sequence.limit) {
      end(sequence.id, FinishReason::kLength, pick);
    } else {
      reports_.push_back({.sequence = &sequence, .ended = nullptr, .finish = std::nullopt, .pick = pick});
    }
    ++pick;
  }
  counters_.generated_tokens += size(pick);
  counters_.prefill_rows += size(prefill_rows);
  const bool decode_only = prefill_rows == 0;
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  counters_.steps += 1;
  counters_.step_seconds += elapsed.count();
  if (decode_only) {
    counters_.decode_steps += 1;
    counters_.decode_tokens += size(pick);
    counters_.decode_seconds += elapsed.count();
  }
}

void Engine::end(RequestId id, FinishReason reason, int pick) {
  std::unique_ptr<Sequence> sequence = scheduler_.remove(id);
  if (sequence == nullptr) return;  // a cancelled request that has ended already
  switch (reason) {
    case FinishReason::kStop:
      ++counters_.finished_stop;
      break;
    case FinishReason::kLength:
      ++counters_.finished_length;
      break;
    case FinishReason::kCancelled:
      ++counters_.finished_cancelled;
      break;
  }
  Sequence* const address = sequence.get();
  reports_.push_back({.sequence = address, .ended = std::move(sequence), .finish = reason, .pick = pick});
}

void Engine::publish() {
  counters_.preemptions = scheduler_.preemptions();
  counters_.running = scheduler_.running();
  counters_.waiting = scheduler_.waiting();
  counters_.kv_blocks_total = scheduler_.blocks().capacity();
  counters_.kv_blocks_used = counters_.kv_blocks_total - scheduler_.blocks().free_blocks();
  counters_.decode_routing = routing_log_.decode().totals();
  counters_.mixed_routing = routing_log_.mixed().totals();
  stats_.store(counters_);
}

void Engine::report() {
  for (const Report& report : reports_) {
    const Sequence& sequence = *report.sequence;
    TokenEvent event;
    event.finish = report.finish;
    event.prompt_tokens = sequence.prompt_tokens;
    event.generated_tokens = sequence.generated();
    if (report.pick >= 0) {
      const std::size_t pick = size(report.pick);
      event.id = picks_[pick].id;
      event.logprob = picks_[pick].logprob;
      event.top = top_of(pick, sequence.request);
      event.logits = logits_of(pick);
    }
    sequence.callback(event);
  }
  reports_.clear();
}

int Engine::cancel_all() {
  take_in();
  while (const Sequence* first = scheduler_.first()) end(first->id, FinishReason::kCancelled, -1);
  const auto ended = static_cast<int>(reports_.size());
  publish();
  report();
  return ended;
}

}  // namespace tagalong::engine
