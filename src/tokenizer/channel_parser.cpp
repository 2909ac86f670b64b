#include "tokenizer/channel_parser.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace tagalong::tokenizer {
namespace {

using Kind = ReplyPart::Kind;

// No header is longer; a function's name is all that varies.
constexpr std::size_t kMaxHeader = 512;
constexpr std::string_view kBlanks = " \t\r\n";
constexpr std::string_view kReceiver = "to=";

// Whether a text begins as a header does; nothing if it is too short to tell.
std::optional<bool> begins_header(std::string_view text, const ReplyChannels& channels) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == text.npos) return std::nullopt;
  text.remove_prefix(first);
  bool may_begin = false;
  for (const std::string_view word : {channels.header_begin, channels.channel, channels.constrain,
                                      channels.body_begin, channels.role, kReceiver}) {
    if (text.starts_with(word)) return true;
    may_begin |= word.starts_with(text);
  }
  return may_begin ? std::nullopt : std::optional(false);
}

// Whether the end of a reply cut off a header here, rather than text that only looked like one. Nothing but
// blanks counts as a header.
bool is_cut_header(std::string_view text, const ReplyChannels& channels) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return text.empty() || text.starts_with(channels.header_begin) || text.starts_with(channels.channel) ||
         text.starts_with(channels.constrain);
}

// The word at the beginning of the text, up to a blank or a marker.
std::string_view first_word(std::string_view text) { return text.substr(0, text.find_first_of(" \t\r\n<")); }

}  // namespace

ChannelParser::ChannelParser(const ReplyChannels& channels, ReplyStart start)
    : channels_(channels),
      borders_{channels.body_ends[0], channels.body_ends[1], channels.body_ends[2], channels.header_begin},
      mode_(start == ReplyStart::reply ? Mode::header : Mode::body) {
  if (start == ReplyStart::inside_reasoning) kind_ = Kind::reasoning;
}

std::vector<ReplyPart> ChannelParser::push(std::string_view text) {
  std::vector<ReplyPart> out;
  waiting_ += text;
  run(out);
  return out;
}

void ChannelParser::run(std::vector<ReplyPart>& out) {
  bool more = true;
  while (more) {
    switch (mode_) {
      case Mode::header:
        more = step_header(out);
        break;
      case Mode::body:
        more = step_body(out);
        break;
      case Mode::call:
        more = step_call(out);
        break;
    }
  }
}

void ChannelParser::emit(std::string_view text, std::vector<ReplyPart>& out) {
  if (text.empty()) return;
  if (std::exchange(new_line_, false)) append_text(kind_, "\n", out);
  append_text(kind_, text, out);
  seen_[kind_ == Kind::content ? 1 : 0] = true;
}

void ChannelParser::begin_body(Kind kind) {
  mode_ = Mode::body;
  kind_ = kind;
  new_line_ = seen_[kind == Kind::content ? 1 : 0];
}

void ChannelParser::begin_message(std::string_view header) {
  const std::size_t receiver = header.find(kReceiver);
  if (receiver != header.npos) {
    std::string_view name = first_word(header.substr(receiver + kReceiver.size()));
    if (name.starts_with(channels_.functions)) name.remove_prefix(channels_.functions.size());
    function_ = name;
    mode_ = Mode::call;
    searched_ = 0;
    scanner_ = ValueScanner(CallSyntax::channels);
    return;
  }
  const std::size_t channel = header.find(channels_.channel);
  const std::string_view name =
      channel == header.npos ? "" : first_word(header.substr(channel + channels_.channel.size()));
  begin_body(name == channels_.reasoning ? Kind::reasoning : Kind::content);
}

bool ChannelParser::step_header(std::vector<ReplyPart>& out) {
  const std::optional<bool> is_header = begins_header(waiting_, channels_);
  if (!is_header) return false;
  if (!*is_header) {
    begin_body(Kind::content);
    return true;
  }
  const std::string_view text = waiting_;
  const std::string_view head = text.substr(0, kMaxHeader);
  const std::size_t begin = head.find(channels_.body_begin);
  const std::size_t end = find_first_marker(head, channels_.body_ends).at;
  if (begin == head.npos && end == head.npos && text.size() < kMaxHeader) return false;
  if (end < begin || begin == head.npos) {
    // Not a header after all. Its first character goes, so that no marker stands where this began.
    const std::size_t first = text.find_first_not_of(kBlanks) + 1;
    begin_body(Kind::content);
    emit(text.substr(0, first), out);
    waiting_.erase(0, first);
    return true;
  }
  header_ = text.substr(0, begin + channels_.body_begin.size());
  begin_message(text.substr(0, begin));
  waiting_.erase(0, header_.size());
  return true;
}

bool ChannelParser::step_body(std::vector<ReplyPart>& out) {
  const FoundMarker found = find_first_marker(std::string_view(waiting_), borders_);
  if (found.marker.empty()) {
    const std::size_t settled = waiting_.size() - longest_partial_marker(waiting_, borders_);
    emit(std::string_view(waiting_).substr(0, settled), out);
    waiting_.erase(0, settled);
    return false;
  }
  emit(std::string_view(waiting_).substr(0, found.at), out);
  // The beginning of a header belongs to it.
  const bool is_header = found.marker == channels_.header_begin;
  waiting_.erase(0, found.at + (is_header ? 0 : found.marker.size()));
  mode_ = Mode::header;
  return true;
}

bool ChannelParser::step_call(std::vector<ReplyPart>& out) {
  const FoundMarker found = find_first_marker(std::string_view(waiting_), borders_, searched_);
  if (found.marker.empty()) {
    searched_ = waiting_.size() - longest_partial_marker(waiting_, borders_);
    return false;
  }
  const std::string_view body = std::string_view(waiting_).substr(0, found.at);
  if (scanner_.ends_inside(body)) {
    searched_ = found.at + found.marker.size();
    return true;
  }
  const bool is_header = found.marker == channels_.header_begin;
  if (auto call = parse_named_arguments(function_, body)) {
    out.push_back(std::move(*call));
  } else {
    begin_body(Kind::content);
    emit(header_, out);
    emit(body, out);
    if (!is_header) emit(found.marker, out);
  }
  waiting_.erase(0, found.at + (is_header ? 0 : found.marker.size()));
  mode_ = Mode::header;
  return true;
}

std::vector<ReplyPart> ChannelParser::finish() {
  std::vector<ReplyPart> out;
  while (mode_ == Mode::call) {
    // The marker that ends a call often ends the reply too, and is then no part of its text.
    if (auto call = parse_named_arguments(function_, waiting_)) {
      out.push_back(std::move(*call));
      waiting_.clear();
      mode_ = Mode::header;
      break;
    }
    // What is left of an unfinished call may hold another message.
    begin_body(Kind::content);
    emit(header_, out);
    run(out);
  }
  if (mode_ == Mode::header && !is_cut_header(waiting_, channels_)) begin_body(Kind::content);
  if (mode_ == Mode::body) emit(waiting_, out);
  waiting_.clear();
  return out;
}

}  // namespace tagalong::tokenizer
