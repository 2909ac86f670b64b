#include "tokenizer/reply_parser.h"

namespace tagalong::tokenizer {
namespace {

using Json = nlohmann::ordered_json;
using Kind = ReplyPart::Kind;

std::variant<MarkerParser, ChannelParser> parser_for(const ReplyFormat& format, ReplyStart start,
                                                     const Json& tools) {
  if (format.channels) return ChannelParser(*format.channels, start);
  return MarkerParser(format, start, tools);
}

}  // namespace

ReplyParser::ReplyParser(const ReplyFormat& format, ReplyStart start, const Json& tools)
    : parser_(parser_for(format, start, tools)) {}

std::vector<ReplyPart> ReplyParser::push(std::string_view text) {
  return std::visit([&](auto& parser) { return parser.push(text); }, parser_);
}

std::vector<ReplyPart> ReplyParser::finish() {
  return std::visit([](auto& parser) { return parser.finish(); }, parser_);
}

MarkerParser::MarkerParser(const ReplyFormat& format, ReplyStart start, const Json& tools)
    : format_(format),
      content_markers_{format.call_begin, format.calls_begin, format.calls_end},
      tools_(tools),
      mode_(format.reasoning_begin.empty() ? Mode::content : Mode::start),
      scanner_(format.call_syntax) {
  if (start == ReplyStart::inside_reasoning && mode_ == Mode::start) {
    mode_ = Mode::reasoning;
    at_line_start_ = true;
  }
  if (start == ReplyStart::inside_content) mode_ = Mode::content;
}

std::vector<ReplyPart> MarkerParser::push(std::string_view text) {
  std::vector<ReplyPart> out;
  waiting_ += text;
  run(out);
  return out;
}

void MarkerParser::run(std::vector<ReplyPart>& out) {
  bool more = true;
  while (more) {
    switch (mode_) {
      case Mode::start:
        more = step_start();
        break;
      case Mode::reasoning:
        more = step_reasoning(out);
        break;
      case Mode::content:
        more = step_content(out);
        break;
      case Mode::call:
        more = step_call(out);
        break;
    }
  }
}

std::vector<ReplyPart> MarkerParser::finish() {
  std::vector<ReplyPart> out;
  // What is left of an unfinished call may hold another one.
  while (mode_ == Mode::call) {
    append_text(Kind::content, format_.call_begin, out);
    mode_ = Mode::content;
    at_line_start_ = false;
    run(out);
  }
  append_text(mode_ == Mode::reasoning ? Kind::reasoning : Kind::content, waiting_, out);
  waiting_.clear();
  return out;
}

void MarkerParser::skip_newlines() {
  if (!at_line_start_) return;
  const std::size_t text = waiting_.find_first_not_of('\n');
  if (text != waiting_.npos) at_line_start_ = false;
  waiting_.erase(0, std::min(text, waiting_.size()));
}

void MarkerParser::emit_before(std::size_t end, Kind kind, std::vector<ReplyPart>& out) {
  const std::string_view text = std::string_view(waiting_).substr(0, end);
  append_text(kind, text.substr(0, text.find_last_not_of('\n') + 1), out);
}

template <typename Markers>
void MarkerParser::emit_settled(Kind kind, const Markers& markers, std::vector<ReplyPart>& out) {
  std::size_t settled = waiting_.size() - longest_partial_marker(waiting_, markers);
  while (settled > 0 && waiting_[settled - 1] == '\n') --settled;
  append_text(kind, std::string_view(waiting_).substr(0, settled), out);
  waiting_.erase(0, settled);
}

// Reasoning can only begin a reply.
bool MarkerParser::step_start() {
  const std::size_t first = waiting_.find_first_not_of(" \t\r\n");
  if (first == waiting_.npos) return false;
  const std::string_view text = std::string_view(waiting_).substr(first);
  if (text.starts_with(format_.reasoning_begin)) {
    waiting_.erase(0, first + format_.reasoning_begin.size());
    mode_ = Mode::reasoning;
    at_line_start_ = true;
    return true;
  }
  if (format_.reasoning_begin.starts_with(text)) return false;
  mode_ = Mode::content;
  return true;
}

bool MarkerParser::step_reasoning(std::vector<ReplyPart>& out) {
  skip_newlines();
  const std::size_t end = waiting_.find(format_.reasoning_end);
  if (end == waiting_.npos) {
    emit_settled(Kind::reasoning, std::array{format_.reasoning_end}, out);
    return false;
  }
  emit_before(end, Kind::reasoning, out);
  waiting_.erase(0, end + format_.reasoning_end.size());
  mode_ = Mode::content;
  at_line_start_ = true;
  return true;
}

bool MarkerParser::step_content(std::vector<ReplyPart>& out) {
  skip_newlines();
  const FoundMarker found = find_first_marker(std::string_view(waiting_), content_markers_);
  if (found.marker.empty()) {
    emit_settled(Kind::content, content_markers_, out);
    return false;
  }
  emit_before(found.at, Kind::content, out);
  waiting_.erase(0, found.at + found.marker.size());
  if (found.marker == format_.call_begin) {
    begin_call();
  } else {
    at_line_start_ = true;
  }
  return true;
}

void MarkerParser::begin_call() {
  mode_ = Mode::call;
  searched_ = 0;
  scanner_ = ValueScanner(format_.call_syntax);
}

bool MarkerParser::step_call(std::vector<ReplyPart>& out) {
  const std::size_t end = waiting_.find(format_.call_end, searched_);
  if (end == waiting_.npos) {
    // The marker may have begun at the end of what is there.
    searched_ = waiting_.size() - partial_marker(waiting_, format_.call_end);
    return false;
  }
  const std::string_view body = std::string_view(waiting_).substr(0, end);
  if (scanner_.ends_inside(body)) {
    searched_ = end + format_.call_end.size();
    return true;
  }
  if (auto call = parse_call(format_, body, tools_)) {
    out.push_back(std::move(*call));
    at_line_start_ = true;
  } else {
    at_line_start_ = false;
    append_text(Kind::content, format_.call_begin, out);
    append_text(Kind::content, body, out);
    append_text(Kind::content, format_.call_end, out);
  }
  waiting_.erase(0, end + format_.call_end.size());
  mode_ = Mode::content;
  return true;
}

}  // namespace tagalong::tokenizer
