// Takes a reply of messages with channels apart while it is generated: see ReplyChannels.
//
// For one reply and one thread. The reasoning channel is reasoning, a message for a function is a call, all
// else is content; a second message of a kind begins on a new line. Headers and the blanks before them are no
// text: what the end of the reply leaves of one is dropped.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/reply_call.h"
#include "tokenizer/reply_format.h"
#include "tokenizer/reply_part.h"

namespace tagalong::tokenizer {

class ChannelParser {
 public:
  ChannelParser(const ReplyChannels& channels, ReplyStart start);
  std::vector<ReplyPart> push(std::string_view text);
  std::vector<ReplyPart> finish();

 private:
  enum class Mode { header, body, call };

  // Each takes what it can from waiting_, and says whether there may be more to take.
  bool step_header(std::vector<ReplyPart>& out);
  bool step_body(std::vector<ReplyPart>& out);
  bool step_call(std::vector<ReplyPart>& out);
  void run(std::vector<ReplyPart>& out);
  void begin_body(ReplyPart::Kind kind);
  void begin_message(std::string_view header);
  void emit(std::string_view text, std::vector<ReplyPart>& out);

  ReplyChannels channels_;
  std::array<std::string_view, 4> borders_;  // what ends a body
  Mode mode_;
  ReplyPart::Kind kind_ = ReplyPart::Kind::content;  // of the body
  bool new_line_ = false;                            // before the body's first text
  std::array<bool, 2> seen_{};                       // reasoning, content: there was text
  std::string header_;                               // of a call, as it came
  std::string function_;
  std::string waiting_;
  std::size_t searched_ = 0;  // of a call: up to where its end was looked for
  ValueScanner scanner_{CallSyntax::channels};
};

}  // namespace tagalong::tokenizer
