#include "server/generation.h"

#include <algorithm>
#include <utility>

namespace tagalong::server {
namespace {

const ApiError kStopping{.status = 503,
                         .message = "the server is stopping",
                         .type = "unavailable_error",
                         .code = "server_stopping",
                         .headers = {{"Retry-After", "5"}}};

}  // namespace

Generation::Generation(const Context& context, ExchangePtr exchange, std::unique_ptr<AnswerWriter> writer,
                       int prompt_tokens)
    : context_(context),
      exchange_(std::move(exchange)),
      writer_(std::move(writer)),
      prompt_tokens_(prompt_tokens) {}

void Generation::start(std::vector<ChoicePlan> plans) {
  for (ChoicePlan& plan : plans) {
    choices_.push_back(
        {.pipe = TextPipe(context_.tokenizer, std::move(plan.stop), plan.logprobs, std::move(plan.prefix)),
         .id = std::nullopt,
         .generated = 0});
  }
  try {
    for (std::size_t i = 0; i < plans.size(); ++i) {
      choices_[i].id = context_.engine.submit(
          std::move(plans[i].request),
          [self = shared_from_this(), i](const engine::TokenEvent& event) { self->receive(i, event); });
      ++context_.admission.active;
    }
  } catch (...) {
    over_ = true;
    cancel();
    throw;
  }
  // The exchange keeps us alive until the answer has ended: the engine may be done long before a slow client
  // is.
  exchange_->on_close([self = shared_from_this()](CloseReason reason) {
    if (reason == CloseReason::kShutdown) self->fail(kStopping);
    self->over_ = true;
    self->cancel();
  });
  exchange_->on_ready([self = shared_from_this()] { self->flush(); });
  writer_->begin();
  flush();  // an echoed prompt
}

void Generation::receive(std::size_t choice, const engine::TokenEvent& event) {
  const std::lock_guard lock(inbox_mutex_);
  inbox_.push_back({.choice = choice,
                    .id = event.id,
                    .logprob = event.logprob,
                    .top = {event.top.begin(), event.top.end()},
                    .finish = event.finish,
                    .generated = event.generated_tokens});
  if (std::exchange(scheduled_, true)) return;
  context_.post([self = shared_from_this()] { self->work_off(); });
}

void Generation::work_off() {
  std::vector<Event> events;
  {
    const std::lock_guard lock(inbox_mutex_);
    events.swap(inbox_);
    scheduled_ = false;
  }
  try {
    for (const Event& event : events) handle(event);
    flush();
  } catch (...) {
    fail(to_api_error(std::current_exception()));
  }
}

void Generation::handle(const Event& event) {
  Choice& choice = choices_[event.choice];
  if (event.finish) {
    choice.id.reset();
    --context_.admission.active;
  }
  if (over_ || choice.pipe.finished()) return;
  if (event.finish == engine::FinishReason::kCancelled) return fail(kStopping);  // not by us: the engine ends
  choice.generated = event.generated;
  // The token that ends the text is not part of it.
  if (event.finish != engine::FinishReason::kStop) choice.pipe.push(event.id, event.logprob, event.top);
  if (choice.pipe.stopped()) {
    choice.pipe.finish("stop");
    if (choice.id) context_.engine.cancel(*choice.id);
  } else if (event.finish) {
    choice.pipe.finish(event.finish == engine::FinishReason::kStop ? "stop" : "length");
  }
}

void Generation::flush() {
  // While the client reads more slowly than we write, text waits here and goes out in larger pieces.
  if (over_ || (exchange_->streaming() && !exchange_->ready())) return;
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    if (Delta delta = choices_[i].pipe.take(); !delta.empty()) {
      writer_->add(static_cast<int>(i), std::move(delta), usage());
    }
  }
  if (std::ranges::all_of(choices_, [](const Choice& choice) { return choice.pipe.finished(); })) {
    over_ = true;
    const Usage total = usage();
    exchange_->note(
        fmt::format("prompt_tokens={} completion_tokens={}", total.prompt_tokens, total.completion_tokens));
    writer_->end(total);
  }
}

void Generation::cancel() {
  for (const Choice& choice : choices_) {
    if (choice.id) context_.engine.cancel(*choice.id);
  }
}

void Generation::fail(const ApiError& error) {
  if (std::exchange(over_, true)) return;
  writer_->fail(error);
  cancel();
}

Usage Generation::usage() const {
  Usage usage{.prompt_tokens = prompt_tokens_, .completion_tokens = 0};
  for (const Choice& choice : choices_) usage.completion_tokens += choice.generated;
  return usage;
}

}  // namespace tagalong::server
