// Takes a reply apart while it is generated: reasoning, content, tool calls.
//
// For one reply and one thread. What comes out, joined by kind, does not depend on where the text was cut
// into chunks. Never loses text: a call that cannot be understood comes out as content.
#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tokenizer/channel_parser.h"
#include "tokenizer/reply_call.h"
#include "tokenizer/reply_format.h"
#include "tokenizer/reply_part.h"

namespace tagalong::tokenizer {

// Replies with markers in the text: all families but those with channels.
class MarkerParser {
 public:
  MarkerParser(const ReplyFormat& format, ReplyStart start, const nlohmann::ordered_json& tools);
  std::vector<ReplyPart> push(std::string_view text);
  std::vector<ReplyPart> finish();

 private:
  enum class Mode { start, reasoning, content, call };

  // Each takes what it can from waiting_, and says whether there may be more to take.
  bool step_start();
  bool step_reasoning(std::vector<ReplyPart>& out);
  bool step_content(std::vector<ReplyPart>& out);
  bool step_call(std::vector<ReplyPart>& out);
  void run(std::vector<ReplyPart>& out);
  void begin_call();
  void skip_newlines();
  // Emits all before `end`, but for the newlines there.
  void emit_before(std::size_t end, ReplyPart::Kind kind, std::vector<ReplyPart>& out);
  // Emits what cannot be the beginning of a marker, nor newlines in front of one.
  template <typename Markers>
  void emit_settled(ReplyPart::Kind kind, const Markers& markers, std::vector<ReplyPart>& out);

  ReplyFormat format_;
  std::array<std::string_view, 3> content_markers_;
  nlohmann::ordered_json tools_;
  Mode mode_;
  bool at_line_start_ = false;  // newlines that come next are not part of the text
  std::string waiting_;
  std::size_t searched_ = 0;  // of a call: up to where its end was looked for
  ValueScanner scanner_;
};

class ReplyParser {
 public:
  // `tools` is the request's list, or null; it says which arguments are strings where the syntax does not.
  explicit ReplyParser(const ReplyFormat& format, ReplyStart start = ReplyStart::reply,
                       const nlohmann::ordered_json& tools = nullptr);

  std::vector<ReplyPart> push(std::string_view text);
  // The end of the reply; reasoning that was not closed is still reasoning.
  std::vector<ReplyPart> finish();

 private:
  std::variant<MarkerParser, ChannelParser> parser_;
};

}  // namespace tagalong::tokenizer
