// How a family of models writes reasoning and tool calls into its replies: data, not code.
//
// Plain data; any thread.
#pragma once

#include <string>
#include <string_view>

#include "tokenizer/chat_template.h"

namespace tagalong::tokenizer {

enum class CallSyntax {
  none,
  json,       // {"name": ..., "arguments": {...}}
  key_value,  // name<arg_key>k</arg_key><arg_value>v</arg_value>...
  fenced,     // type<separator>name, then the arguments in a fenced block of JSON
};

struct ReplyFormat {
  std::string_view family = "plain";
  // Empty: the model does not reason in its replies.
  std::string_view reasoning_begin;
  std::string_view reasoning_end;
  CallSyntax call_syntax = CallSyntax::none;
  std::string_view call_begin;
  std::string_view call_end;
  // Around all calls of a reply; they mean nothing by themselves.
  std::string_view calls_begin;
  std::string_view calls_end;
  std::string_view separator;

  // The family whose way of writing a call the template shows when it renders one. Reasoning counts if the
  // template knows its closing marker.
  static ReplyFormat of(const ChatTemplate& chat_template);

  // Whether the prompt has opened the reasoning already, so that the reply begins inside it.
  bool opens_reasoning(std::string_view prompt) const;
};

}  // namespace tagalong::tokenizer
