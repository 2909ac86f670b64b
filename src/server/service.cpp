#include "server/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <random>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/split_mix.h"
#include "routing/routing_policy.h"
#include "server/api_error.h"
#include "server/json_writer.h"
#include "server/openai_answer.h"

namespace tagalong::server {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kDefaultCompletionTokens = 16;  // what OpenAI's API says
constexpr std::size_t kLoggedMethod = 16;     // characters of a method that are logged
constexpr int kAllTokens = std::numeric_limits<int>::max();

std::int64_t seconds_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::uint64_t random_seed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

// The seed of choice `index` of a prompt. The first has the request's own, so that n > 1 does not change it.
std::uint64_t choice_seed(std::uint64_t seed, int index) {
  if (index == 0) return seed;
  return base::split_mix(seed + base::kSplitMixStep * static_cast<std::uint64_t>(index));
}

std::string make_id(Endpoint endpoint) {
  return fmt::format("{}-{:016x}", endpoint == Endpoint::kChat ? "chatcmpl" : "cmpl", random_seed());
}

HttpResponse json_response(std::string body) {
  return {.headers = {{"Content-Type", "application/json"}}, .body = std::move(body)};
}

// A browser sends JSON to another site only after asking; what it may send unasked is no JSON for us.
void check_content_type(const HttpRequest& request) {
  const std::string_view type = request.header("Content-Type");
  const std::string_view essence = type.substr(0, type.find(';'));
  if (same_name(essence.substr(0, essence.find_last_not_of(' ') + 1), "application/json")) return;
  throw ApiException(
      {.status = 415, .message = "the body must be sent with 'Content-Type: application/json'"});
}

ApiException no_such_model(const std::string& name) {
  return ApiException({.status = 404,
                       .message = fmt::format("the model '{}' does not exist here", name.substr(0, 100)),
                       .param = "model",
                       .code = "model_not_found"});
}

}  // namespace

Service::Service(HttpServer& server, engine::Engine& engine, const tokenizer::Tokenizer& tokenizer,
                 std::optional<tokenizer::ChatTemplate> chat_template, ServiceOptions options)
    : server_(server),
      engine_(engine),
      tokenizer_(tokenizer),
      chat_template_(std::move(chat_template)),
      options_(std::move(options)),
      started_(seconds_now()),
      policy_(routing::to_string(engine.options().policy)),
      admission_{.active = 0, .capacity = engine.options().max_sequences + options_.queue},
      router_(routes()),
      workers_(options_.workers) {}

// The API in one table.
std::vector<Route> Service::routes() {
  const auto generates = [this](Endpoint endpoint) {
    return [this, endpoint](const RoutedRequest& request) { return generate(endpoint, request); };
  };
  return {
      {.method = "GET",
       .path = "/health",
       .access = Access::kOpen,
       .handler = [this](const RoutedRequest&) { return health(); }},
      {.method = "GET",
       .path = "/ready",
       .access = Access::kOpen,
       .handler = [this](const RoutedRequest&) { return ready(); }},
      {.method = "GET",
       .path = "/v1/models",
       .handler = [this](const RoutedRequest&) { return list_models(); }},
      {.method = "GET",
       .path = "/v1/models/{id}",
       .handler = [this](const RoutedRequest& request) { return one_model(request.tail); }},
      {.method = "POST",
       .path = "/v1/completions",
       .runs_on = RunsOn::kWorker,
       .handler = generates(Endpoint::kCompletions)},
      {.method = "POST",
       .path = "/v1/chat/completions",
       .runs_on = RunsOn::kWorker,
       .handler = generates(Endpoint::kChat)},
  };
}

template <typename F>
void Service::guard(const ExchangePtr& exchange, F body) {
  try {
    body();
  } catch (...) {
    exchange->respond(error_response(to_api_error(std::current_exception())));
  }
}

void Service::handle(const ExchangePtr& exchange) {
  guard(exchange, [&] { route(exchange); });
}

void Service::watch(const ExchangePtr& exchange, std::string route) {
  exchange->on_finished([route = std::move(route), begin = Clock::now()](const Exchange& done) {
    const auto level = route == "/health" || route == "/ready" ? spdlog::level::debug : spdlog::level::info;
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin).count();
    const std::string_view method = std::string_view(done.request().method).substr(0, kLoggedMethod);
    spdlog::log(level, "http: {} {} status={} ms={} id={}{}{}{}", method, route, done.status(), ms,
                done.request().id, done.noted().empty() ? "" : " ", done.noted(),
                done.client_gone() ? " client_gone" : "");
  });
}

void Service::route(const ExchangePtr& exchange) {
  const HttpRequest& request = exchange->request();
  Router::Match match = router_.match(request.method, request.path);
  // Of the path only what the table knows is logged.
  watch(exchange, match.route ? match.route->path : "other");
  if (request.method == "OPTIONS") {
    const std::string allowed = request.path == "*" ? router_.all_methods() : match.allowed;
    if (!allowed.empty()) return exchange->respond({.status = 204, .headers = {{"Allow", allowed}}});
  }
  if (match.allowed.empty()) {
    throw ApiException({.status = 404,
                        .message = fmt::format("no route {}", request.path.substr(0, 100)),
                        .code = "unknown_route"});
  }
  if (!match.route) {
    throw ApiException(
        {.status = 405,
         .message = fmt::format("{} is not allowed here, only {}", request.method, match.allowed),
         .code = "method_not_allowed",
         .headers = {{"Allow", match.allowed}}});
  }
  if (match.route->access == Access::kNeedsKey) {
    if (!options_.keys.admit(request)) {
      throw ApiException({.status = 401,
                          .message = "a valid API key is needed, as 'Authorization: Bearer KEY'",
                          .type = "authentication_error",
                          .code = "invalid_api_key",
                          .headers = {{"WWW-Authenticate", "Bearer"}}});
    }
    if (server_.draining()) throw engine::EngineClosed("draining");
  }
  run(exchange, *match.route,
      {.request = request, .body = exchange->take_body(), .tail = std::move(match.tail)});
}

void Service::run(const ExchangePtr& exchange, const Route& route, RoutedRequest request) {
  if (route.runs_on == RunsOn::kServerThread) return answer(exchange, route.handler(request));
  check_room(1);  // a full server need not parse
  workers_.submit([this, exchange, &route, request = std::move(request)] {
    Reply reply;
    try {
      reply = route.handler(request);
    } catch (...) {
      reply = error_response(to_api_error(std::current_exception()));
    }
    server_.post([this, exchange, reply = std::move(reply)] { answer(exchange, reply); });
  });
}

void Service::answer(const ExchangePtr& exchange, const Reply& reply) {
  if (exchange->finished()) return;  // the client left meanwhile
  if (const auto* response = std::get_if<HttpResponse>(&reply)) return exchange->respond(*response);
  guard(exchange, [&] { std::get<Start>(reply)(exchange); });
}

void Service::check_room(int sequences) const {
  if (admission_.active + sequences <= admission_.capacity) return;
  throw ApiException(
      {.status = 429,
       .message = fmt::format("all {} places, running and queued, are taken", admission_.capacity),
       .type = "rate_limit_error",
       .code = "queue_full",
       .headers = {{"Retry-After", "1"}}});
}

// --- small routes ---

Reply Service::health() const { return json_response(R"({"status":"ok"})"); }

Reply Service::ready() const {
  if (server_.draining()) throw engine::EngineClosed("draining");
  return json_response(R"({"status":"ready"})");
}

std::string Service::model_json() const {
  JsonWriter json;
  json.begin_object().member("id", options_.model_name).member("object", "model").member("created", started_);
  json.member("owned_by", "tagalong").member("max_model_len", engine_.max_context());
  json.member("architecture", engine_.model_info().architecture).member("routing", policy_).end_object();
  return json.take();
}

Reply Service::list_models() const {
  JsonWriter json;
  json.begin_object()
      .member("object", "list")
      .key("data")
      .begin_array()
      .raw(model_json())
      .end_array()
      .end_object();
  return json_response(json.take());
}

Reply Service::one_model(const std::string& name) const {
  if (name != options_.model_name) throw no_such_model(name);
  return json_response(model_json());
}

// --- completions and chats ---

Reply Service::generate(Endpoint endpoint, const RoutedRequest& request) {
  check_content_type(request.request);
  const RequestLimits limits{
      .vocab = engine_.model_info().vocab, .max_choices = admission_.capacity, .sampling = options_.sampling};
  const Json body = parse_json_body(request.body);
  const auto prepared = std::make_shared<Prepared>(prepare(endpoint == Endpoint::kChat
                                                               ? parse_chat_request(body, limits)
                                                               : parse_completion_request(body, limits)));
  return [this, prepared](const ExchangePtr& exchange) { start(exchange, *prepared); };
}

Service::Prepared Service::prepare(const OpenAiRequest& request) const {
  if (!request.model.empty() && request.model != options_.model_name) throw no_such_model(request.model);
  const bool exact = wants_exact_routing(request);
  const std::vector<std::vector<std::int32_t>> prompts = tokenise(request);

  Prepared prepared;
  prepared.generates = request.max_tokens != 0;
  const std::uint64_t seed = request.seed ? *request.seed : random_seed();
  for (const std::vector<std::int32_t>& prompt : prompts) {
    prepared.prompt_tokens += static_cast<int>(prompt.size());  // once, however many choices share it
    for (int i = 0; i < request.n; ++i) {
      ChoicePlan plan;
      plan.request.prompt = prompt;
      plan.request.max_tokens = request.max_tokens.value_or(
          request.endpoint == Endpoint::kChat ? kAllTokens : kDefaultCompletionTokens);
      plan.request.sampling = request.sampling;
      plan.request.sampling.seed = choice_seed(seed, i);
      plan.request.stop_ids = request.stop_token_ids;
      if (!request.ignore_eos) {
        plan.request.stop_ids.insert(plan.request.stop_ids.end(), options_.stop_ids.begin(),
                                     options_.stop_ids.end());
      }
      plan.request.exact_routing = exact;
      plan.request.top_logprobs = request.logprobs.value_or(0);
      plan.stop = request.stop;
      if (request.echo) plan.prefix = tokenizer_.decode(prompt, {.skip_special = true});
      plan.logprobs = request.logprobs ? TextPipe::Logprobs::kYes : TextPipe::Logprobs::kNo;
      prepared.plans.push_back(std::move(plan));
    }
  }
  const std::string policy = exact ? routing::to_string(routing::RoutingPolicy{}) : policy_;
  prepared.answer = {.endpoint = request.endpoint,
                     .id = make_id(request.endpoint),
                     .created = seconds_now(),
                     .model = options_.model_name,
                     .routing = policy,
                     .fingerprint = fmt::format("tagalong-{}-{}", options_.version, policy),
                     .choices = static_cast<int>(prepared.plans.size()),
                     .logprobs = request.logprobs.has_value(),
                     .top_logprobs = request.logprobs.value_or(0),
                     .stream = request.stream,
                     .include_usage = request.include_usage,
                     .continuous_usage = request.continuous_usage};
  return prepared;
}

bool Service::wants_exact_routing(const OpenAiRequest& request) const {
  const std::string exact = routing::to_string(routing::RoutingPolicy{});
  if (!request.routing || policy_ == *request.routing) return policy_ == exact;
  if (*request.routing == exact) return true;
  // The policy's name alone, without its numbers, asks for what the server does anyway.
  if (policy_.substr(0, policy_.find(':')) == *request.routing) return false;
  throw bad_field("routing.policy", "can be \"{}\" on this server; exact routing can always be asked for",
                  policy_.substr(0, policy_.find(':')));
}

std::vector<std::vector<std::int32_t>> Service::tokenise(const OpenAiRequest& request) const {
  std::vector<std::vector<std::int32_t>> prompts;
  if (request.endpoint == Endpoint::kChat) {
    prompts.push_back(tokenise_chat(request));
  } else {
    for (const Prompt& prompt : request.prompts) {
      const auto* text = std::get_if<std::string>(&prompt);
      prompts.push_back(text ? tokenizer_.encode(*text) : std::get<std::vector<std::int32_t>>(prompt));
    }
  }
  const std::string param = request.endpoint == Endpoint::kChat ? "messages" : "prompt";
  for (const auto& prompt : prompts) {
    if (prompt.empty()) throw bad_field(param, "is empty");
    if (prompt.size() < static_cast<std::size_t>(engine_.max_context())) continue;
    throw ApiException({.message = fmt::format("this model's maximum context length is {} tokens, the answer "
                                               "included, but the prompt has {}",
                                               engine_.max_context(), prompt.size()),
                        .param = param,
                        .code = "context_length_exceeded"});
  }
  return prompts;
}

std::vector<std::int32_t> Service::tokenise_chat(const OpenAiRequest& request) const {
  if (!chat_template_) {
    throw bad_field("messages",
                    "cannot be used: this model has no chat template; /v1/completions takes plain text");
  }
  nlohmann::ordered_json context = request.template_options;
  context["messages"] = request.messages;
  context["add_generation_prompt"] = request.generation_prompt;
  try {
    const tokenizer::RenderedChat chat = chat_template_->render_marked(context);
    // Control tokens come from the template only: what a user wrote stays text.
    return tokenizer_.encode(chat.text, {.add_special_tokens = false, .user_text = chat.user_text});
  } catch (const base::InputError& e) {
    throw ApiException({.message = e.what(), .param = "messages"});  // a template may refuse a conversation
  }
}

void Service::start(const ExchangePtr& exchange, Prepared& prepared) {
  auto writer = make_answer_writer(exchange, prepared.answer);
  if (prepared.generates) {
    check_room(prepared.answer.choices);
    const Generation::Context context{
        .engine = engine_,
        .tokenizer = tokenizer_,
        .admission = admission_,
        .post = [this](std::function<void()> task) { server_.post(std::move(task)); }};
    std::make_shared<Generation>(context, exchange, std::move(writer), prepared.prompt_tokens)
        ->start(std::move(prepared.plans));
    return;
  }
  const Usage usage{.prompt_tokens = prepared.prompt_tokens, .completion_tokens = 0};
  writer->begin();
  for (std::size_t i = 0; i < prepared.plans.size(); ++i) {
    writer->add(static_cast<int>(i), {.text = prepared.plans[i].prefix, .tokens = {}, .finish = "length"},
                usage);
  }
  writer->end(usage);
}

}  // namespace tagalong::server
