// How a family of models writes reasoning and tool calls into its replies: data, not code.
//
// Plain data; any thread.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tokenizer/chat_template.h"
#include "tokenizer/reply_part.h"
#include "tokenizer/tokenizer.h"

namespace tagalong::tokenizer {

enum class CallSyntax {
  none,
  json,       // {"name": ..., "arguments": {...}}
  key_value,  // name<arg_key>k</arg_key><arg_value>v</arg_value>...
  separated,  // name<separator>{...}, or type<separator>name and a fenced block with {...}
  channels,   // a message of its own, whose header names the function
};

// Replies made of messages: header_begin, role, "to=" and who it is for, channel and its name, body_begin,
// body, one of body_ends. A header may leave out what is plain, and puts the receiver before or after the
// channel.
struct ReplyChannels {
  std::string_view header_begin;
  std::string_view role;
  std::string_view channel;
  std::string_view constrain;  // what the body is made of follows; it says nothing new
  std::string_view body_begin;
  std::array<std::string_view, 3> body_ends;
  std::string_view reasoning;  // the channel that is not for the user
  std::string_view functions;  // what stands before a function's name where it is the receiver
};

struct ReplyFormat {
  std::string_view family = "plain";
  // Empty: the model does not reason in its replies, or does so in a channel.
  std::string_view reasoning_begin;
  std::string_view reasoning_end;
  CallSyntax call_syntax = CallSyntax::none;
  std::string_view call_begin;
  std::string_view call_end;
  // Around all calls of a reply; they mean nothing by themselves.
  std::string_view calls_begin;
  std::string_view calls_end;
  std::string_view separator;
  std::optional<ReplyChannels> channels;

  // The family whose way of writing a call the template shows when it renders one. Reasoning counts if the
  // template knows its closing marker.
  static ReplyFormat of(const ChatTemplate& chat_template);
  // The same; where there is no template, or it shows no calls, the family all of whose markers the tokenizer
  // has as tokens.
  static ReplyFormat of(const std::optional<ChatTemplate>& chat_template, const Tokenizer& tokenizer);

  // Where the reply to this prompt begins: a prompt may have opened the reasoning, or a channel.
  ReplyStart start_after(std::string_view prompt) const;
};

// All families that are known, "plain" not among them.
std::span<const ReplyFormat> reply_families();

}  // namespace tagalong::tokenizer
