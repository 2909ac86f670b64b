// The API: which routes there are, who may use them, and how a request becomes work for the engine.
//
// handle() runs on the server's thread; parsing and tokenising run on workers. Prompts and answers are never
// logged. The server, the engine and the tokenizer must outlive the service.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/sampling.h"
#include "server/api_keys.h"
#include "server/generation.h"
#include "server/http_server.h"
#include "server/openai_request.h"
#include "server/router.h"
#include "server/worker_queue.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace tagalong::server {

struct ServiceOptions {
  std::string model_name;  // as clients call it
  std::string version;     // of Tagalong, for the fingerprint
  ApiKeys keys;
  int queue = 64;                      // sequences that may wait beside those that run
  engine::SamplingParams sampling;     // for fields that a request leaves out
  std::vector<std::int32_t> stop_ids;  // end a text, unless a request ignores them
  int workers = 2;
};

class Service {
 public:
  // Without a template there are no chats: a request for one is told so.
  Service(HttpServer& server, engine::Engine& engine, const tokenizer::Tokenizer& tokenizer,
          std::optional<tokenizer::ChatTemplate> chat_template, ServiceOptions options);

  void handle(const ExchangePtr& exchange);

  // Sequences of requests that have not ended. On the server's thread.
  int active() const { return admission_.active; }

 private:
  // What a worker makes of a request.
  struct Prepared {
    AnswerOptions answer;
    std::vector<ChoicePlan> plans;
    int prompt_tokens = 0;
    bool generates = true;  // false: max_tokens is 0
  };

  std::vector<Route> routes();
  void route(const ExchangePtr& exchange);
  void run(const ExchangePtr& exchange, const Route& route, RoutedRequest request);
  void answer(const ExchangePtr& exchange, const Reply& reply);
  // Runs `body`; what it throws becomes the answer. The one place that does so.
  template <typename F>
  void guard(const ExchangePtr& exchange, F body);
  void watch(const ExchangePtr& exchange, std::string route);

  Reply health() const;
  Reply ready() const;
  Reply list_models() const;
  Reply one_model(const std::string& name) const;
  Reply generate(Endpoint endpoint, const RoutedRequest& request);

  Prepared prepare(const OpenAiRequest& request) const;
  std::vector<std::vector<std::int32_t>> tokenise(const OpenAiRequest& request) const;
  std::vector<std::int32_t> tokenise_chat(const OpenAiRequest& request) const;
  bool wants_exact_routing(const OpenAiRequest& request) const;
  void start(const ExchangePtr& exchange, Prepared& prepared);
  void check_room(int sequences) const;
  std::string model_json() const;

  HttpServer& server_;
  engine::Engine& engine_;
  const tokenizer::Tokenizer& tokenizer_;
  std::optional<tokenizer::ChatTemplate> chat_template_;
  ServiceOptions options_;
  std::int64_t started_;  // seconds since 1970
  std::string policy_;    // the engine's, as text
  Admission admission_;
  Router router_;
  WorkerQueue workers_;  // last: its threads use the rest
};

}  // namespace tagalong::server
