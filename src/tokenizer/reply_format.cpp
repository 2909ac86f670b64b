#include "tokenizer/reply_format.h"

#include <array>

#include "base/error.h"

namespace tagalong::tokenizer {
namespace {

constexpr std::string_view kThink = "<think>";
constexpr std::string_view kThinkEnd = "</think>";

struct Family {
  ReplyFormat format;
  // What a rendered call of the probe looks like, from the call's beginning on.
  std::string_view probe;
};

// The first that fits is taken.
constexpr std::array<Family, 3> kFamilies = {{
    {{.family = "glm",
      .reasoning_begin = kThink,
      .reasoning_end = kThinkEnd,
      .call_syntax = CallSyntax::key_value,
      .call_begin = "<tool_call>",
      .call_end = "</tool_call>",
      .calls_begin = {},
      .calls_end = {},
      .separator = {}},
     "<arg_key>probe_key</arg_key>"},
    {{.family = "qwen3",
      .reasoning_begin = kThink,
      .reasoning_end = kThinkEnd,
      .call_syntax = CallSyntax::json,
      .call_begin = "<tool_call>",
      .call_end = "</tool_call>",
      .calls_begin = {},
      .calls_end = {},
      .separator = {}},
     "{\"name\": \"probe_name\", \"arguments\": {\"probe_key\": \"probe_value\"}}"},
    {{.family = "deepseek_v3",
      .reasoning_begin = kThink,
      .reasoning_end = kThinkEnd,
      .call_syntax = CallSyntax::fenced,
      .call_begin = "<｜tool▁call▁begin｜>",
      .call_end = "<｜tool▁call▁end｜>",
      .calls_begin = "<｜tool▁calls▁begin｜>",
      .calls_end = "<｜tool▁calls▁end｜>",
      .separator = "<｜tool▁sep｜>"},
     "<｜tool▁sep｜>probe_name\n```json\n{\"probe_key\": \"probe_value\"}\n```"},
}};

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
      Json context = chat_template.special_tokens();
      context["messages"] = Json::array({Json{{"role", "user"}, {"content", "probe"}}, assistant});
      context["add_generation_prompt"] = false;
      try {
        text += chat_template.render(context);
      } catch (const base::InputError&) {
        // This template does not take this form.
      }
    }
  }
  return text;
}

}  // namespace

ReplyFormat ReplyFormat::of(const ChatTemplate& chat_template) {
  const std::string probes = rendered_probes(chat_template);
  ReplyFormat format;
  for (const Family& family : kFamilies) {
    const std::size_t begin = probes.find(family.format.call_begin);
    if (begin == probes.npos || probes.find(family.probe, begin) == probes.npos) continue;
    format = family.format;
    break;
  }
  const bool reasons = chat_template.source().find(kThinkEnd) != std::string::npos;
  format.reasoning_begin = reasons ? kThink : std::string_view();
  format.reasoning_end = reasons ? kThinkEnd : std::string_view();
  return format;
}

bool ReplyFormat::opens_reasoning(std::string_view prompt) const {
  if (reasoning_begin.empty()) return false;
  const std::size_t last = prompt.find_last_not_of(" \t\r\n");
  return last != prompt.npos && prompt.substr(0, last + 1).ends_with(reasoning_begin);
}

}  // namespace tagalong::tokenizer
