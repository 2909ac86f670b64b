// Takes a reply apart while it is generated: reasoning, content, tool calls.
//
// For one reply and one thread. What comes out, joined by kind, does not depend on where the text was cut
// into chunks. Never loses text: a call that cannot be understood comes out as content.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/reply_format.h"

namespace tagalong::tokenizer {

struct ReplyPart {
  enum class Kind { reasoning, content, call };
  Kind kind;
  std::string text;       // of a call: the function's name
  std::string arguments;  // of a call: a JSON object
  bool operator==(const ReplyPart&) const = default;
};

class ReplyParser {
 public:
  enum class Start { reply, inside_reasoning };
  // `tools` is the request's list, or null; it says which arguments are strings where the syntax does not.
  explicit ReplyParser(const ReplyFormat& format, Start start = Start::reply,
                       const nlohmann::ordered_json& tools = nullptr);

  std::vector<ReplyPart> push(std::string_view text);
  // The end of the reply; reasoning that was not closed is still reasoning.
  std::vector<ReplyPart> finish();

 private:
  enum class Mode { start, reasoning, content, call };

  // Each takes what it can from waiting_, and says whether there may be more to take.
  bool step_start(std::vector<ReplyPart>& out);
  bool step_reasoning(std::vector<ReplyPart>& out);
  bool step_content(std::vector<ReplyPart>& out);
  bool step_call(std::vector<ReplyPart>& out);
  void run(std::vector<ReplyPart>& out);
  void emit(ReplyPart::Kind kind, std::string_view text, std::vector<ReplyPart>& out);
  void skip_newlines();
  // Emits what cannot be the beginning of a marker, nor newlines in front of one.
  void emit_settled(ReplyPart::Kind kind, std::initializer_list<std::string_view> markers,
                    std::vector<ReplyPart>& out);

  ReplyFormat format_;
  nlohmann::ordered_json tools_;
  Mode mode_;
  bool at_line_start_ = false;  // newlines that come next are not part of the text
  std::string waiting_;
  std::size_t searched_ = 0;  // of a call: up to where its end was looked for
};

// The call between its markers; nothing if it is malformed. For tests and for the parser.
std::optional<ReplyPart> parse_call(const ReplyFormat& format, std::string_view body,
                                    const nlohmann::ordered_json& tools);

}  // namespace tagalong::tokenizer
