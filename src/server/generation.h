// One API request at work: its sequences in the engine, and the answer that grows from their tokens.
//
// Lives on the server's thread; the engine's thread only puts tokens into an inbox. Keeps itself alive until
// the engine has reported the end of every sequence and the answer has ended, which a slow client may delay.
// When the client goes away its sequences are cancelled at once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/request.h"
#include "server/exchange.h"
#include "server/openai_answer.h"
#include "server/text_pipe.h"

namespace tagalong::server {

// One choice of the answer, ready for the engine.
struct ChoicePlan {
  engine::Request request;
  std::vector<std::string> stop;
  std::string prefix;  // the echoed prompt
  TextPipe::Logprobs logprobs = TextPipe::Logprobs::kNo;
};

// Sequences in the engine that the server answers for, over all requests. On the server's thread.
struct Admission {
  int active = 0;
  int capacity = 0;  // running and queued
};

class Generation : public std::enable_shared_from_this<Generation> {
 public:
  struct Context {
    engine::Engine& engine;
    const tokenizer::Tokenizer& tokenizer;
    Admission& admission;
    std::function<void(std::function<void()>)> post;  // onto the server's thread
  };

  // `prompt_tokens` as usage counts them. The references must outlive the generation.
  Generation(const Context& context, ExchangePtr exchange, std::unique_ptr<AnswerWriter> writer,
             int prompt_tokens);

  // Submits all choices, or throws and leaves none behind. Once, before which nothing happens.
  void start(std::vector<ChoicePlan> plans);

 private:
  struct Choice {
    TextPipe pipe;
    std::optional<engine::RequestId> id;  // while the engine has it
    int generated = 0;
  };
  struct Event {
    std::size_t choice = 0;
    std::int32_t id = 0;
    float logprob = 0;
    std::vector<engine::TokenLogprob> top;
    std::optional<engine::FinishReason> finish;
    int generated = 0;
  };

  void receive(std::size_t choice, const engine::TokenEvent& event);  // engine's thread
  void work_off();
  void handle(const Event& event);
  void flush();
  void cancel();
  void fail(const ApiError& error);
  Usage usage() const;

  Context context_;
  ExchangePtr exchange_;
  std::unique_ptr<AnswerWriter> writer_;
  int prompt_tokens_;
  std::vector<Choice> choices_;
  bool over_ = false;  // the answer is complete, or nobody wants it

  std::mutex inbox_mutex_;
  std::vector<Event> inbox_;
  bool scheduled_ = false;  // work_off() is on its way
};

}  // namespace tagalong::server
