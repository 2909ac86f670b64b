#include "server/openai_answer.h"

#include <algorithm>
#include <set>
#include <utility>

#include "server/json_writer.h"

namespace tagalong::server {
namespace {

// A token as a string: its text, or the bytes spelled out where they are no whole characters.
std::string token_name(const std::string& bytes) {
  if (is_utf8(bytes)) return bytes;
  std::string name = "bytes:";
  for (const char c : bytes) name += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return name;
}

void write_chat_token(JsonWriter& json, const std::string& bytes, float logprob) {
  json.member("token", token_name(bytes)).member("logprob", logprob).key("bytes").begin_array();
  for (const char c : bytes) json.value(static_cast<int>(static_cast<unsigned char>(c)));
  json.end_array();
}

void write_chat_logprobs(JsonWriter& json, const std::vector<TokenRecord>& tokens) {
  json.begin_object().key("content").begin_array();
  for (const TokenRecord& token : tokens) {
    json.begin_object();
    write_chat_token(json, token.bytes, token.logprob);
    json.key("top_logprobs").begin_array();
    for (const auto& [bytes, logprob] : token.top) {
      json.begin_object();
      write_chat_token(json, bytes, logprob);
      json.end_object();
    }
    json.end_array().end_object();
  }
  json.end_array().member("refusal", nullptr).end_object();
}

// The likeliest tokens by name; the one that was drawn is always among them.
void write_top(JsonWriter& json, const TokenRecord& token) {
  json.begin_object();
  std::set<std::string> names;  // two ids may have the same bytes: the likelier one stays
  const auto add = [&](const std::string& bytes, float logprob) {
    std::string name = token_name(bytes);
    if (names.insert(name).second) json.member(name, logprob);
  };
  for (const auto& [bytes, logprob] : token.top) add(bytes, logprob);
  add(token.bytes, token.logprob);
  json.end_object();
}

void write_completion_logprobs(JsonWriter& json, const std::vector<TokenRecord>& tokens, int top) {
  json.begin_object().key("tokens").begin_array();
  for (const TokenRecord& token : tokens) json.value(token_name(token.bytes));
  json.end_array().key("token_logprobs").begin_array();
  for (const TokenRecord& token : tokens) json.value(token.logprob);
  json.end_array().key("top_logprobs");
  if (top == 0) {
    json.value(nullptr);
  } else {
    json.begin_array();
    for (const TokenRecord& token : tokens) write_top(json, token);
    json.end_array();
  }
  json.key("text_offset").begin_array();
  for (const TokenRecord& token : tokens) json.value(token.offset);
  json.end_array().end_object();
}

class WriterBase : public AnswerWriter {
 public:
  WriterBase(ExchangePtr exchange, AnswerOptions options)
      : exchange_(std::move(exchange)), options_(std::move(options)) {}

 protected:
  bool chat() const { return options_.endpoint == Endpoint::kChat; }

  std::vector<HttpHeader> headers(std::string content_type) const {
    return {{"Content-Type", std::move(content_type)}, {"X-Tagalong-Routing", options_.routing}};
  }

  // The fields before "choices".
  void open(JsonWriter& json, std::string_view object) const {
    json.begin_object()
        .member("id", options_.id)
        .member("object", object)
        .member("created", options_.created);
    json.member("model", options_.model).member("system_fingerprint", options_.fingerprint);
  }

  void write_logprobs(JsonWriter& json, const std::vector<TokenRecord>& tokens) const {
    json.key("logprobs");
    if (!options_.logprobs) {
      json.value(nullptr);
    } else if (chat()) {
      write_chat_logprobs(json, tokens);
    } else {
      write_completion_logprobs(json, tokens, options_.top_logprobs);
    }
  }

  static void write_usage(JsonWriter& json, const Usage& usage) {
    json.begin_object().member("prompt_tokens", usage.prompt_tokens);
    json.member("completion_tokens", usage.completion_tokens);
    json.member("total_tokens", usage.prompt_tokens + usage.completion_tokens).end_object();
  }

  ExchangePtr exchange_;
  AnswerOptions options_;
};

class WholeWriter final : public WriterBase {
 public:
  WholeWriter(ExchangePtr exchange, AnswerOptions options)
      : WriterBase(std::move(exchange), std::move(options)),
        choices_(static_cast<std::size_t>(options_.choices)) {}

  void begin() override {}

  void add(int choice, Delta delta, const Usage&) override {
    Delta& whole = choices_[static_cast<std::size_t>(choice)];
    whole.text += delta.text;
    std::ranges::move(delta.tokens, std::back_inserter(whole.tokens));
    if (!delta.finish.empty()) whole.finish = delta.finish;
  }

  void end(const Usage& usage) override {
    JsonWriter json;
    open(json, chat() ? "chat.completion" : "text_completion");
    json.key("choices").begin_array();
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      const Delta& choice = choices_[i];
      json.begin_object().member("index", i);
      if (chat()) {
        json.key("message").begin_object().member("role", "assistant").member("content", choice.text);
        json.member("refusal", nullptr).end_object();
      } else {
        json.member("text", choice.text);
      }
      write_logprobs(json, choice.tokens);
      json.member("finish_reason", choice.finish).end_object();
    }
    json.end_array().key("usage");
    write_usage(json, usage);
    json.end_object();
    exchange_->respond({.headers = headers("application/json"), .body = json.take()});
  }

  void fail(const ApiError& error) override { exchange_->respond(error_response(error)); }

 private:
  std::vector<Delta> choices_;
};

class StreamWriter final : public WriterBase {
 public:
  using WriterBase::WriterBase;

  void begin() override {
    HttpResponse head{.headers = headers("text/event-stream; charset=utf-8")};
    head.headers.push_back({"Cache-Control", "no-store"});
    head.headers.push_back({"X-Accel-Buffering", "no"});  // asks proxies to pass each event on at once
    exchange_->begin_stream(std::move(head), std::string(kSsePing));
    if (!chat()) return;
    std::string events;
    for (int i = 0; i < options_.choices; ++i) {
      events += chunk(i, Usage{}, [&](JsonWriter& json) {
        json.key("delta").begin_object().member("role", "assistant").member("content", "").end_object();
        json.member("logprobs", nullptr).member("finish_reason", nullptr);
      });
    }
    exchange_->write(events);
  }

  void add(int choice, Delta delta, const Usage& so_far) override {
    std::string events;
    if (!delta.text.empty() || !delta.tokens.empty()) {
      events += chunk(choice, so_far, [&](JsonWriter& json) {
        if (chat()) {
          json.key("delta").begin_object().member("content", delta.text).end_object();
        } else {
          json.member("text", delta.text);
        }
        write_logprobs(json, delta.tokens);
        json.member("finish_reason", nullptr);
      });
    }
    if (!delta.finish.empty()) {
      events += chunk(choice, so_far, [&](JsonWriter& json) {
        if (chat()) {
          json.key("delta").begin_object().end_object();
        } else {
          json.member("text", "");
        }
        json.member("logprobs", nullptr).member("finish_reason", delta.finish);
      });
    }
    exchange_->write(events);
  }

  void end(const Usage& usage) override {
    std::string events;
    if (options_.include_usage) {
      JsonWriter json;
      open(json, object());
      json.key("choices").begin_array().end_array().key("usage");
      write_usage(json, usage);
      json.end_object();
      events = sse_event(json.text());
    }
    events += kSseDone;
    exchange_->write(events);
    exchange_->end();
  }

  void fail(const ApiError& error) override {
    if (!exchange_->streaming()) return exchange_->respond(error_response(error));
    exchange_->write(sse_event(error_json(error)));
    exchange_->end();
  }

 private:
  std::string_view object() const { return chat() ? "chat.completion.chunk" : "text_completion"; }

  template <typename WriteChoice>
  std::string chunk(int choice, const Usage& usage, WriteChoice write_choice) const {
    JsonWriter json;
    open(json, object());
    json.key("choices").begin_array().begin_object().member("index", choice);
    write_choice(json);
    json.end_object().end_array();
    if (options_.continuous_usage) {
      json.key("usage");
      write_usage(json, usage);
    } else if (options_.include_usage) {
      json.member("usage", nullptr);
    }
    json.end_object();
    return sse_event(json.text());
  }
};

}  // namespace

std::string sse_event(std::string_view json) { return fmt::format("data: {}\n\n", json); }

std::unique_ptr<AnswerWriter> make_answer_writer(ExchangePtr exchange, AnswerOptions options) {
  if (options.stream) return std::make_unique<StreamWriter>(std::move(exchange), std::move(options));
  return std::make_unique<WholeWriter>(std::move(exchange), std::move(options));
}

}  // namespace tagalong::server
