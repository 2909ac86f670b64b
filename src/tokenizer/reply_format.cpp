#include "tokenizer/reply_format.h"

#include <algorithm>

#include "base/error.h"

namespace tagalong::tokenizer {
namespace {

constexpr std::string_view kThink = "<think>";
constexpr std::string_view kThinkEnd = "</think>";

constexpr ReplyChannels kHarmony = {.header_begin = "<|start|>",
                                    .role = "assistant",
                                    .channel = "<|channel|>",
                                    .constrain = "<|constrain|>",
                                    .body_begin = "<|message|>",
                                    .body_ends = {"<|end|>", "<|call|>", "<|return|>"},
                                    .reasoning = "analysis",
                                    .functions = "functions."};

// The first that fits is taken.
constexpr std::array<ReplyFormat, 4> kFamilies = {{
    {.family = "glm",
     .reasoning_begin = kThink,
     .reasoning_end = kThinkEnd,
     .call_syntax = CallSyntax::key_value,
     .call_begin = "<tool_call>",
     .call_end = "</tool_call>",
     .calls_begin = {},
     .calls_end = {},
     .separator = {},
     .channels = {}},
    {.family = "qwen3",
     .reasoning_begin = kThink,
     .reasoning_end = kThinkEnd,
     .call_syntax = CallSyntax::json,
     .call_begin = "<tool_call>",
     .call_end = "</tool_call>",
     .calls_begin = {},
     .calls_end = {},
     .separator = {},
     .channels = {}},
    {.family = "deepseek_v3",
     .reasoning_begin = kThink,
     .reasoning_end = kThinkEnd,
     .call_syntax = CallSyntax::separated,
     .call_begin = "<｜tool▁call▁begin｜>",
     .call_end = "<｜tool▁call▁end｜>",
     .calls_begin = "<｜tool▁calls▁begin｜>",
     .calls_end = "<｜tool▁calls▁end｜>",
     .separator = "<｜tool▁sep｜>",
     .channels = {}},
    {.family = "gpt-oss",
     .reasoning_begin = {},
     .reasoning_end = {},
     .call_syntax = CallSyntax::channels,
     .call_begin = kHarmony.header_begin,
     .call_end = {},
     .calls_begin = {},
     .calls_end = {},
     .separator = {},
     .channels = kHarmony},
}};

// What a rendered call of the probe looks like, from the call's beginning on.
std::string_view probe_of(CallSyntax syntax) {
  switch (syntax) {
    case CallSyntax::none:
      break;
    case CallSyntax::json:
      return R"({"name": "probe_name", "arguments": {"probe_key": "probe_value"}})";
    case CallSyntax::key_value:
      return "<arg_key>probe_key</arg_key>";
    case CallSyntax::separated:
      return "<｜tool▁sep｜>";
    case CallSyntax::channels:
      return "to=functions.probe_name";
  }
  return {};
}

// The markers that a tokenizer of the family has as tokens.
std::vector<std::string_view> tokens_of(const ReplyFormat& format) {
  std::vector<std::string_view> tokens = {format.call_begin, format.call_end, format.calls_begin,
                                          format.calls_end, format.separator};
  if (format.call_syntax == CallSyntax::key_value) tokens.insert(tokens.end(), {"<arg_key>", "<arg_value>"});
  if (format.channels) {
    tokens.insert(tokens.end(), {format.channels->channel, format.channels->body_begin});
    tokens.insert(tokens.end(), format.channels->body_ends.begin(), format.channels->body_ends.end());
  }
  std::erase(tokens, std::string_view());
  return tokens;
}

// A conversation with one call. Templates differ in what they take: arguments as an object or as text, no
// content or an empty one. All that renders is looked at.
std::string rendered_probes(const ChatTemplate& chat_template) {
  using Json = nlohmann::ordered_json;
  std::string text;
  for (const Json& arguments :
       {Json{{"probe_key", "probe_value"}}, Json(R"({"probe_key": "probe_value"})")}) {
    for (const Json& content : {Json(""), Json()}) {
      Json call = {{"type", "function"}, {"id", "probe"}};
      call["function"] = {{"name", "probe_name"}, {"arguments", arguments}};
      Json assistant = {{"role", "assistant"}, {"content", content}};
      assistant["tool_calls"] = Json::array({call});
      Json context = {{"messages", Json::array({Json{{"role", "user"}, {"content", "probe"}}, assistant})},
                      {"add_generation_prompt", false}};
      try {
        text += chat_template.render(context);
      } catch (const base::InputError&) {
        // This template does not take this form.
      }
    }
  }
  return text;
}

std::optional<ReplyFormat> rendered_family(const ChatTemplate& chat_template) {
  const std::string probes = rendered_probes(chat_template);
  for (const ReplyFormat& family : kFamilies) {
    const std::size_t begin = probes.find(family.call_begin);
    if (begin != probes.npos && probes.find(probe_of(family.call_syntax), begin) != probes.npos)
      return family;
  }
  return std::nullopt;
}

void set_reasoning(ReplyFormat& format, bool reasons) {
  if (format.channels) return;
  format.reasoning_begin = reasons ? kThink : std::string_view();
  format.reasoning_end = reasons ? kThinkEnd : std::string_view();
}

bool knows_reasoning(const ChatTemplate& chat_template) {
  return chat_template.source().find(kThinkEnd) != std::string::npos;
}

}  // namespace

std::span<const ReplyFormat> reply_families() { return kFamilies; }

ReplyFormat ReplyFormat::of(const ChatTemplate& chat_template) {
  ReplyFormat format = rendered_family(chat_template).value_or(ReplyFormat{});
  set_reasoning(format, knows_reasoning(chat_template));
  return format;
}

ReplyFormat ReplyFormat::of(const std::optional<ChatTemplate>& chat_template, const Tokenizer& tokenizer) {
  if (chat_template) {
    const ReplyFormat format = of(*chat_template);
    if (format.call_syntax != CallSyntax::none) return format;
  }
  const auto has = [&](std::string_view token) { return tokenizer.token_id(token).has_value(); };
  const auto family = std::ranges::find_if(
      kFamilies, [&](const ReplyFormat& known) { return std::ranges::all_of(tokens_of(known), has); });
  ReplyFormat format = family == kFamilies.end() ? ReplyFormat{} : *family;
  set_reasoning(format, chat_template ? knows_reasoning(*chat_template) : has(kThink) && has(kThinkEnd));
  return format;
}

ReplyStart ReplyFormat::start_after(std::string_view prompt) const {
  if (channels) {
    const std::size_t header = prompt.rfind(channels->header_begin);
    if (header == prompt.npos) return ReplyStart::reply;
    const std::string_view message = prompt.substr(header);
    const std::size_t body = message.find(channels->body_begin);
    if (body == message.npos || !find_first_marker(message, channels->body_ends).marker.empty()) {
      return ReplyStart::reply;
    }
    const std::size_t channel = message.substr(0, body).find(channels->channel);
    const bool reasons = channel != message.npos &&
                         message.substr(channel + channels->channel.size()).starts_with(channels->reasoning);
    return reasons ? ReplyStart::inside_reasoning : ReplyStart::inside_content;
  }
  const std::size_t last = prompt.find_last_not_of(" \t\r\n");
  const bool opened = !reasoning_begin.empty() && last != prompt.npos &&
                      prompt.substr(0, last + 1).ends_with(reasoning_begin);
  return opened ? ReplyStart::inside_reasoning : ReplyStart::reply;
}

}  // namespace tagalong::tokenizer
