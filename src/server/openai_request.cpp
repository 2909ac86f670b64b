#include "server/openai_request.h"

#include <algorithm>
#include <limits>

#include "engine/sampler.h"
#include "server/api_error.h"

namespace tagalong::server {
namespace {

constexpr int kMaxN = 128;
constexpr std::size_t kMaxStops = 32;
constexpr std::size_t kMaxStopBytes = 1024;
constexpr std::size_t kMaxTemplateOptionBytes = std::size_t{16} << 10;

// Fields of other servers and of OpenAI that are not supported, each with the values that change nothing.
struct Neutral {
  const char* name;
  std::vector<Json> values;  // null is always neutral
};

const std::vector<Neutral>& neutral_fields() {
  static const std::vector<Neutral> kFields = {
      {"presence_penalty", {0}},
      {"frequency_penalty", {0}},
      {"repetition_penalty", {1}},
      {"length_penalty", {1}},
      {"logit_bias", {Json::object()}},
      {"min_tokens", {0}},
      {"suffix", {""}},
      {"response_format", {{{"type", "text"}}}},
      {"tools", {Json::array()}},
      {"tool_choice", {"none", "auto"}},
      {"functions", {Json::array()}},
      {"function_call", {"none", "auto"}},
      {"modalities", {Json::array({"text"})}},
      {"audio", {}},
      {"prediction", {}},
      {"web_search_options", {}},
      {"reasoning_effort", {}},
      {"verbosity", {}},
      {"typical_p", {1}},
      {"use_beam_search", {false}},
      {"early_stopping", {false}},
      {"skip_special_tokens", {true}},
      {"include_stop_str_in_output", {false}},
      {"prompt_logprobs", {0}},
      {"truncate_prompt_tokens", {}},
      {"allowed_token_ids", {}},
      {"bad_words", {Json::array()}},
      {"return_token_ids", {false}},
      {"continue_final_message", {false}},
      {"add_special_tokens", {true}},
  };
  return kFields;
}

// Fields that do not change what is generated.
constexpr const char* kIgnored[] = {
    "user",
    "metadata",
    "store",
    "service_tier",
    "safety_identifier",
    "priority",
    "timings_per_token",
    "parallel_tool_calls",
    "prompt_cache_key",
    "prompt_cache_retention",
    "cache_prompt",
    "spaces_between_special_tokens",
};

void check_unsupported(JsonFields& fields) {
  for (const Neutral& neutral : neutral_fields()) {
    const Json* value = fields.find(neutral.name);
    if (!value || std::ranges::find(neutral.values, *value) != neutral.values.end()) continue;
    ApiException error = bad_field(neutral.name, "is not supported with this value");
    error.error.code = "unsupported_parameter";
    throw error;
  }
  for (const char* name : kIgnored) fields.find(name);
  fields.reject_others();
}

std::int32_t read_token_id(const Json& value, const std::string& where, int vocab) {
  if (!value.is_number_integer()) throw bad_field(where, "must be token ids, got {}", describe(value));
  const bool huge = value.is_number_unsigned() && value.get<std::uint64_t>() > INT32_MAX;
  if (huge || value.get<std::int64_t>() < 0 || value.get<std::int64_t>() >= vocab) {
    throw bad_field(where, "has token id {}, the vocabulary has ids 0 to {}", describe(value), vocab - 1);
  }
  return value.get<std::int32_t>();
}

std::vector<std::int32_t> read_token_ids(const Json& array, const std::string& where, int vocab) {
  std::vector<std::int32_t> ids;
  ids.reserve(array.size());
  for (const Json& value : array) ids.push_back(read_token_id(value, where, vocab));
  return ids;
}

// A string, a list of strings, a list of ids, or a list of lists of ids.
std::vector<Prompt> read_prompts(JsonFields& fields, int vocab) {
  const Json* value = fields.find("prompt");
  if (!value) throw bad_field("prompt", "is missing");
  if (value->is_string()) return {value->get<std::string>()};
  if (!value->is_array() || value->empty()) {
    throw bad_field("prompt",
                    "must be a string, a list of strings, a list of token ids, or a list of those, got {}",
                    describe(*value));
  }
  if (value->front().is_number()) return {read_token_ids(*value, "prompt", vocab)};
  std::vector<Prompt> prompts;
  for (const Json& item : *value) {
    if (item.type() != value->front().type()) throw bad_field("prompt", "mixes strings and token ids");
    if (item.is_string()) {
      prompts.emplace_back(item.get<std::string>());
    } else if (item.is_array()) {
      prompts.emplace_back(read_token_ids(item, "prompt", vocab));
    } else {
      throw bad_field("prompt", "must hold strings or token ids, got {}", describe(item));
    }
  }
  return prompts;
}

std::vector<std::string> read_stop(JsonFields& fields) {
  const Json* value = fields.find("stop");
  if (!value) return {};
  std::vector<std::string> stop;
  const auto add = [&](const Json& item) {
    if (!item.is_string())
      throw bad_field("stop", "must be a string or a list of strings, got {}", describe(item));
    stop.push_back(item.get<std::string>());
    if (stop.back().empty()) throw bad_field("stop", "must not hold an empty string");
    if (stop.back().size() > kMaxStopBytes) {
      throw bad_field("stop", "has a string of {} bytes, at most {} are allowed", stop.back().size(),
                      kMaxStopBytes);
    }
  };
  if (!value->is_array()) {
    add(*value);
  } else {
    if (value->size() > kMaxStops) {
      throw bad_field("stop", "has {} strings, at most {} are allowed", value->size(), kMaxStops);
    }
    for (const Json& item : *value) add(item);
  }
  return stop;
}

void read_stream(JsonFields& fields, OpenAiRequest& request) {
  request.stream = fields.boolean("stream").value_or(false);
  const Json* value = fields.find("stream_options");
  if (!value) return;
  JsonFields options(*value, "stream_options.");
  if (!request.stream) throw bad_field("stream_options", "is only allowed together with 'stream': true");
  request.include_usage = options.boolean("include_usage").value_or(false);
  request.continuous_usage = options.boolean("continuous_usage_stats").value_or(false);
  options.find("include_obfuscation");
  options.reject_others();
}

void read_routing(JsonFields& fields, OpenAiRequest& request) {
  const Json* value = fields.find("routing");
  if (!value) return;
  JsonFields routing(*value, "routing.");
  request.routing = routing.string("policy");
  if (!request.routing) throw bad_field("routing.policy", "is missing");
  routing.reject_others();
}

void read_sampling(JsonFields& fields, OpenAiRequest& request) {
  engine::SamplingParams& sampling = request.sampling;
  if (const auto v = fields.number("temperature", 0, 2)) sampling.temperature = static_cast<float>(*v);
  if (const auto v = fields.integer("top_k", -1, std::numeric_limits<int>::max())) {
    sampling.top_k = static_cast<int>(std::max<std::int64_t>(*v, 0));  // -1 is another spelling of off
  }
  if (const auto v = fields.number("top_p", 0, 1)) sampling.top_p = static_cast<float>(*v);
  if (const auto v = fields.number("min_p", 0, 1)) sampling.min_p = static_cast<float>(*v);
  if (sampling.top_p <= 0) {  // keeps the likeliest token only, which is what greedy means
    sampling.temperature = 0;
    sampling.top_p = 1;
  }
  if (const Json* v = fields.find("seed"); v && v->is_number_unsigned()) {
    request.seed = v->get<std::uint64_t>();
  } else if (const auto seed = fields.integer("seed", INT64_MIN, INT64_MAX)) {
    request.seed = static_cast<std::uint64_t>(*seed);
  }
}

// What both endpoints have.
OpenAiRequest read_common(JsonFields& fields, Endpoint endpoint, const RequestLimits& limits) {
  OpenAiRequest request;
  request.endpoint = endpoint;
  request.sampling = limits.sampling;
  request.model = fields.string("model").value_or("");
  read_sampling(fields, request);
  request.stop = read_stop(fields);
  if (const Json* value = fields.find("stop_token_ids")) {
    if (!value->is_array())
      throw bad_field("stop_token_ids", "must be a list of ids, got {}", describe(*value));
    request.stop_token_ids = read_token_ids(*value, "stop_token_ids", limits.vocab);
  }
  request.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  request.n = static_cast<int>(fields.integer("n", 1, kMaxN).value_or(1));
  if (const auto best_of = fields.integer("best_of", 1, kMaxN); best_of && *best_of != request.n) {
    throw bad_field("best_of", "is only supported equal to 'n' ({})", request.n);
  }
  read_stream(fields, request);
  read_routing(fields, request);
  return request;
}

void check_choices(const OpenAiRequest& request, std::size_t prompts, const RequestLimits& limits) {
  if (prompts * static_cast<std::size_t>(request.n) <= static_cast<std::size_t>(limits.max_choices)) return;
  throw bad_field(prompts > 1 ? "prompt" : "n",
                  "asks for {} x {} answers, this server takes at most {} at a time", prompts, request.n,
                  limits.max_choices);
}

std::optional<int> read_max_tokens(JsonFields& fields, std::string_view name, int least) {
  const auto value = fields.integer(name, least, INT64_MAX);
  if (!value) return std::nullopt;
  return static_cast<int>(std::min<std::int64_t>(*value, std::numeric_limits<int>::max()));
}

// A message's content as one string: a string, or a list of text parts, joined by line breaks.
std::string read_content(const Json& content, const std::string& where) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) {
    throw bad_field(where, "must be a string or a list of text parts, got {}", describe(content));
  }
  std::string text;
  for (std::size_t i = 0; i < content.size(); ++i) {
    JsonFields part(content[i], fmt::format("{}[{}].", where, i));
    if (part.string("type") != "text")
      throw bad_field(part.path("type"), "must be \"text\"; only text is supported");
    const auto piece = part.string("text");
    if (!piece) throw bad_field(part.path("text"), "is missing");
    if (i != 0) text += '\n';
    text += *piece;
  }
  return text;
}

nlohmann::ordered_json read_message(const Json& value, std::size_t index) {
  JsonFields fields(value, fmt::format("messages[{}].", index));
  const auto role = fields.string("role");
  if (!role) throw bad_field(fields.path("role"), "is missing");
  constexpr const char* kRoles[] = {"system", "developer", "user", "assistant", "tool"};
  if (std::ranges::find(kRoles, *role) == std::end(kRoles)) {
    throw bad_field(fields.path("role"), "must be system, developer, user, assistant or tool");
  }
  nlohmann::ordered_json message;
  message["role"] = *role == "developer" ? "system" : *role;  // newer clients' word for the same
  const Json* content = fields.find("content");
  if (!content && *role != "assistant") throw bad_field(fields.path("content"), "is missing");
  message["content"] = content ? read_content(*content, fields.path("content")) : "";
  for (const char* name : {"name", "reasoning_content", "tool_call_id"}) {
    if (const auto text = fields.string(name)) message[name] = *text;
  }
  // What clients send back of an earlier answer, if there is nothing in it.
  for (const char* name : {"tool_calls", "function_call", "refusal", "audio", "annotations"}) {
    const Json* rest = fields.find(name);
    if (rest && !rest->empty()) throw bad_field(fields.path(name), "is not supported");
  }
  fields.reject_others();
  return message;
}

}  // namespace

OpenAiRequest parse_completion_request(const Json& body, const RequestLimits& limits) {
  JsonFields fields(body, "");
  OpenAiRequest request = read_common(fields, Endpoint::kCompletions, limits);
  request.prompts = read_prompts(fields, limits.vocab);
  request.max_tokens = read_max_tokens(fields, "max_tokens", 0);
  request.echo = fields.boolean("echo").value_or(false);
  if (const auto n = fields.integer("logprobs", 0, engine::kMaxTopLogprobs))
    request.logprobs = static_cast<int>(*n);
  if (request.echo && request.logprobs) {
    throw bad_field("logprobs", "of the prompt are not supported: not together with 'echo'");
  }
  check_choices(request, request.prompts.size(), limits);
  check_unsupported(fields);
  return request;
}

OpenAiRequest parse_chat_request(const Json& body, const RequestLimits& limits) {
  JsonFields fields(body, "");
  OpenAiRequest request = read_common(fields, Endpoint::kChat, limits);
  const Json* messages = fields.find("messages");
  if (!messages) throw bad_field("messages", "is missing");
  if (!messages->is_array() || messages->empty()) {
    throw bad_field("messages", "must be a list of at least one message, got {}", describe(*messages));
  }
  request.messages = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < messages->size(); ++i)
    request.messages.push_back(read_message((*messages)[i], i));

  request.template_options = nlohmann::ordered_json::object();
  if (const Json* options = fields.find("chat_template_kwargs")) {
    if (!options->is_object())
      throw bad_field("chat_template_kwargs", "must be an object, got {}", describe(*options));
    // Ordered objects find their keys one by one, so large ones would take for ever to build.
    if (options->dump().size() > kMaxTemplateOptionBytes) {
      throw bad_field("chat_template_kwargs", "is longer than {} bytes", kMaxTemplateOptionBytes);
    }
    for (const auto& [name, value] : options->items()) {
      if (name == "messages") throw bad_field("chat_template_kwargs", "must not hold 'messages'");
      request.template_options[name] = nlohmann::ordered_json(value);
    }
  }
  request.generation_prompt = fields.boolean("add_generation_prompt").value_or(true);

  // The newer name wins when both are there.
  request.max_tokens = read_max_tokens(fields, "max_tokens", 1);
  if (const auto n = read_max_tokens(fields, "max_completion_tokens", 1)) request.max_tokens = n;
  const bool logprobs = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, engine::kMaxTopLogprobs);
  if (logprobs) request.logprobs = static_cast<int>(top.value_or(0));
  if (!logprobs && top.value_or(0) != 0) throw bad_field("top_logprobs", "needs 'logprobs': true");
  check_choices(request, 1, limits);
  check_unsupported(fields);
  return request;
}

}  // namespace tagalong::server
