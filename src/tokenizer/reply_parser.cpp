#include "tokenizer/reply_parser.h"

#include <algorithm>

namespace tagalong::tokenizer {
namespace {

using Json = nlohmann::ordered_json;
using Kind = ReplyPart::Kind;

// How many bytes at the end of the text may be the beginning of the marker.
std::size_t partial_marker(std::string_view text, std::string_view marker) {
  if (marker.empty()) return 0;
  for (std::size_t size = std::min(text.size(), marker.size() - 1); size > 0; --size) {
    if (text.ends_with(marker.substr(0, size))) return size;
  }
  return 0;
}

std::size_t find_marker(std::string_view text, std::string_view marker) {
  return marker.empty() ? std::string_view::npos : text.find(marker);
}

// Whether a call's body ends inside a string or a value, so that an end marker there is part of it.
bool ends_inside(CallSyntax syntax, std::string_view body) {
  if (syntax == CallSyntax::key_value) {
    const std::size_t open = body.rfind("<arg_value>");
    return open != body.npos && body.find("</arg_value>", open) == body.npos;
  }
  bool inside = false;
  for (std::size_t i = 0; i < body.size(); ++i) {
    if (inside && body[i] == '\\') {
      ++i;
    } else if (body[i] == '"') {
      inside = !inside;
    }
  }
  return inside;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") + 1 - first);
}

std::optional<ReplyPart> make_call(std::string_view name, const Json& arguments) {
  if (name.empty() || !arguments.is_object()) return std::nullopt;
  return ReplyPart{Kind::call, std::string(name),
                   arguments.dump(-1, ' ', false, Json::error_handler_t::replace)};
}

std::optional<ReplyPart> parse_json_call(std::string_view body) {
  const Json json = Json::parse(body, nullptr, false);
  if (!json.is_object() || !json.contains("name") || !json["name"].is_string()) return std::nullopt;
  Json arguments = json.contains("arguments") ? json["arguments"] : Json::object();
  // Some models write the arguments as text that holds JSON.
  if (arguments.is_string()) arguments = Json::parse(arguments.get_ref<const std::string&>(), nullptr, false);
  return make_call(json["name"].get_ref<const std::string&>(), arguments);
}

// Whether the tool's schema says that the parameter is a string.
bool is_string_parameter(const Json& tools, std::string_view function, const std::string& parameter) {
  if (!tools.is_array()) return false;
  for (const Json& tool : tools) {
    if (!tool.is_object()) continue;
    const Json& spec = tool.contains("function") ? tool["function"] : tool;
    if (!spec.is_object() || !spec.contains("name") || spec["name"] != function) continue;
    const auto pointer = nlohmann::json_pointer<std::string>("/parameters/properties");
    if (!spec.contains(pointer) || !spec[pointer].is_object()) return false;
    const auto found = spec[pointer].find(parameter);
    return found != spec[pointer].end() && found->is_object() && found->contains("type") &&
           (*found)["type"] == "string";
  }
  return false;
}

// The text up to the marker, which is taken off too.
std::optional<std::string_view> take_until(std::string_view& text, std::string_view marker) {
  const std::size_t at = text.find(marker);
  if (at == text.npos) return std::nullopt;
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(at + marker.size());
  return taken;
}

std::optional<ReplyPart> parse_key_value_call(std::string_view body, const Json& tools) {
  const std::size_t first = std::min(body.find("<arg_key>"), body.size());
  const std::string_view name = trimmed(body.substr(0, first));
  std::string_view rest = trimmed(body.substr(first));
  Json arguments = Json::object();
  while (!rest.empty()) {
    const auto before_key = take_until(rest, "<arg_key>");
    const auto key = take_until(rest, "</arg_key>");
    const auto before_value = take_until(rest, "<arg_value>");
    const auto value = take_until(rest, "</arg_value>");
    if (!before_key || !key || !before_value || !value) return std::nullopt;
    if (!trimmed(*before_key).empty() || !trimmed(*before_value).empty()) return std::nullopt;
    const std::string parameter(trimmed(*key));
    Json parsed = is_string_parameter(tools, name, parameter) ? Json(Json::value_t::discarded)
                                                              : Json::parse(*value, nullptr, false);
    arguments[parameter] = parsed.is_discarded() ? Json(std::string(*value)) : std::move(parsed);
    rest = trimmed(rest);
  }
  return make_call(name, arguments);
}

std::optional<ReplyPart> parse_fenced_call(std::string_view body, std::string_view separator) {
  if (!take_until(body, separator)) return std::nullopt;
  const auto name = take_until(body, "\n");
  if (!name) return std::nullopt;
  std::string_view arguments = trimmed(body);
  if (arguments.starts_with("```json")) arguments.remove_prefix(7);
  if (arguments.ends_with("```")) arguments.remove_suffix(3);
  return make_call(trimmed(*name), Json::parse(arguments, nullptr, false));
}

}  // namespace

std::optional<ReplyPart> parse_call(const ReplyFormat& format, std::string_view body, const Json& tools) {
  switch (format.call_syntax) {
    case CallSyntax::none:
      return std::nullopt;
    case CallSyntax::json:
      return parse_json_call(body);
    case CallSyntax::key_value:
      return parse_key_value_call(body, tools);
    case CallSyntax::fenced:
      return parse_fenced_call(body, format.separator);
  }
  return std::nullopt;
}

ReplyParser::ReplyParser(const ReplyFormat& format, Start start, const Json& tools)
    : format_(format), tools_(tools), mode_(format.reasoning_begin.empty() ? Mode::content : Mode::start) {
  if (start == Start::inside_reasoning && mode_ == Mode::start) {
    mode_ = Mode::reasoning;
    at_line_start_ = true;
  }
}

std::vector<ReplyPart> ReplyParser::push(std::string_view text) {
  std::vector<ReplyPart> out;
  waiting_ += text;
  run(out);
  return out;
}

void ReplyParser::run(std::vector<ReplyPart>& out) {
  bool more = true;
  while (more) {
    switch (mode_) {
      case Mode::start:
        more = step_start(out);
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

std::vector<ReplyPart> ReplyParser::finish() {
  std::vector<ReplyPart> out;
  // What is left of an unfinished call may hold another one.
  while (mode_ == Mode::call) {
    emit(Kind::content, format_.call_begin, out);
    mode_ = Mode::content;
    at_line_start_ = false;
    run(out);
  }
  emit(mode_ == Mode::reasoning ? Kind::reasoning : Kind::content, waiting_, out);
  waiting_.clear();
  return out;
}

void ReplyParser::emit(Kind kind, std::string_view text, std::vector<ReplyPart>& out) {
  if (text.empty()) return;
  if (!out.empty() && out.back().kind == kind && kind != Kind::call) {
    out.back().text += text;
  } else {
    out.push_back({kind, std::string(text), {}});
  }
}

void ReplyParser::skip_newlines() {
  if (!at_line_start_) return;
  const std::size_t text = waiting_.find_first_not_of('\n');
  if (text != waiting_.npos) at_line_start_ = false;
  waiting_.erase(0, std::min(text, waiting_.size()));
}

void ReplyParser::emit_settled(Kind kind, std::initializer_list<std::string_view> markers,
                               std::vector<ReplyPart>& out) {
  std::size_t held = 0;
  for (const std::string_view marker : markers) held = std::max(held, partial_marker(waiting_, marker));
  std::size_t settled = waiting_.size() - held;
  while (settled > 0 && waiting_[settled - 1] == '\n') --settled;
  emit(kind, std::string_view(waiting_).substr(0, settled), out);
  waiting_.erase(0, settled);
}

// Reasoning can only begin a reply.
bool ReplyParser::step_start(std::vector<ReplyPart>&) {
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

bool ReplyParser::step_reasoning(std::vector<ReplyPart>& out) {
  skip_newlines();
  const std::size_t end = find_marker(waiting_, format_.reasoning_end);
  if (end == waiting_.npos) {
    emit_settled(Kind::reasoning, {format_.reasoning_end}, out);
    return false;
  }
  std::string_view text = std::string_view(waiting_).substr(0, end);
  text = text.substr(0, text.find_last_not_of('\n') + 1);
  emit(Kind::reasoning, text, out);
  waiting_.erase(0, end + format_.reasoning_end.size());
  mode_ = Mode::content;
  at_line_start_ = true;
  return true;
}

bool ReplyParser::step_content(std::vector<ReplyPart>& out) {
  skip_newlines();
  std::size_t begin = waiting_.npos;
  std::string_view marker;
  for (const std::string_view candidate : {format_.call_begin, format_.calls_begin, format_.calls_end}) {
    const std::size_t at = find_marker(waiting_, candidate);
    if (at < begin) {
      begin = at;
      marker = candidate;
    }
  }
  if (begin == waiting_.npos) {
    emit_settled(Kind::content, {format_.call_begin, format_.calls_begin, format_.calls_end}, out);
    return false;
  }
  std::string_view text = std::string_view(waiting_).substr(0, begin);
  text = text.substr(0, text.find_last_not_of('\n') + 1);
  emit(Kind::content, text, out);
  waiting_.erase(0, begin + marker.size());
  if (marker == format_.call_begin) {
    mode_ = Mode::call;
    searched_ = 0;
  } else {
    at_line_start_ = true;
  }
  return true;
}

bool ReplyParser::step_call(std::vector<ReplyPart>& out) {
  const std::size_t end = waiting_.find(format_.call_end, searched_);
  if (end == waiting_.npos) {
    // The marker may have begun at the end of what is there.
    searched_ = waiting_.size() - partial_marker(waiting_, format_.call_end);
    return false;
  }
  const std::string_view body = std::string_view(waiting_).substr(0, end);
  if (ends_inside(format_.call_syntax, body)) {
    searched_ = end + format_.call_end.size();
    return true;
  }
  if (auto call = parse_call(format_, body, tools_)) {
    out.push_back(std::move(*call));
    at_line_start_ = true;
  } else {
    at_line_start_ = false;
    emit(Kind::content, format_.call_begin, out);
    emit(Kind::content, body, out);
    emit(Kind::content, format_.call_end, out);
  }
  waiting_.erase(0, end + format_.call_end.size());
  mode_ = Mode::content;
  return true;
}

}  // namespace tagalong::tokenizer
