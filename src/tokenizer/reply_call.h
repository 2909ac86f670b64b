// A tool call as a model writes it, between its markers.
//
// Pure functions and a small scanner for one call; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "tokenizer/reply_format.h"
#include "tokenizer/reply_part.h"

namespace tagalong::tokenizer {

// The call between its markers; nothing if it is malformed. `tools` is the request's list, or null; it says
// which arguments are strings where the syntax does not.
std::optional<ReplyPart> parse_call(const ReplyFormat& format, std::string_view body,
                                    const nlohmann::ordered_json& tools);

// A call whose name came before its body; the body is a JSON object, or empty for no arguments.
std::optional<ReplyPart> parse_named_arguments(std::string_view name, std::string_view body);

// Follows a call's body while it grows, to tell an end marker from the same text inside a value.
class ValueScanner {
 public:
  explicit ValueScanner(CallSyntax syntax) : syntax_(syntax) {}
  // Whether the body ends inside a string or a value. Each body must begin with the one before.
  bool ends_inside(std::string_view body);

 private:
  CallSyntax syntax_;
  std::size_t scanned_ = 0;
  bool inside_ = false;
  bool escaped_ = false;
};

}  // namespace tagalong::tokenizer
