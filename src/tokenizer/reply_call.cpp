#include "tokenizer/reply_call.h"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace tagalong::tokenizer {
namespace {

using Json = nlohmann::ordered_json;
using Kind = ReplyPart::Kind;

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") + 1 - first);
}

// Printing a value goes as deep as the value does, and a model may write any number of brackets.
constexpr int kMaxDepth = 200;

// Discarded if the text is not JSON, or nested too deep.
Json parse_json(std::string_view text) {
  const auto limit = [](int depth, Json::parse_event_t, Json&) {
    if (depth > kMaxDepth) throw std::length_error("nested too deep");
    return true;
  };
  try {
    return Json::parse(text, limit, false);
  } catch (const std::length_error&) {
    return Json(Json::value_t::discarded);
  }
}

std::optional<ReplyPart> make_call(std::string_view name, const Json& arguments) {
  if (name.empty() || !arguments.is_object()) return std::nullopt;
  return ReplyPart{Kind::call, std::string(name),
                   arguments.dump(-1, ' ', false, Json::error_handler_t::replace)};
}

std::optional<ReplyPart> parse_json_call(std::string_view body) {
  const Json json = parse_json(body);
  if (!json.is_object() || !json.contains("name") || !json["name"].is_string()) return std::nullopt;
  Json arguments = json.contains("arguments") ? json["arguments"] : Json::object();
  // Some models write the arguments as text that holds JSON.
  if (arguments.is_string()) arguments = parse_json(arguments.get_ref<const std::string&>());
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
    Json parsed =
        is_string_parameter(tools, name, parameter) ? Json(Json::value_t::discarded) : parse_json(*value);
    arguments[parameter] = parsed.is_discarded() ? Json(std::string(*value)) : std::move(parsed);
    rest = trimmed(rest);
  }
  return make_call(name, arguments);
}

// DeepSeek's later models leave out the type and the fence.
std::optional<ReplyPart> parse_separated_call(std::string_view body, std::string_view separator) {
  const auto before = take_until(body, separator);
  if (!before) return std::nullopt;
  if (trimmed(body).starts_with('{')) return parse_named_arguments(trimmed(*before), body);
  const auto name = take_until(body, "\n");
  if (!name) return std::nullopt;
  std::string_view arguments = trimmed(body);
  if (arguments.starts_with("```json")) arguments.remove_prefix(7);
  if (arguments.ends_with("```")) arguments.remove_suffix(3);
  return parse_named_arguments(trimmed(*name), arguments);
}

}  // namespace

std::optional<ReplyPart> parse_named_arguments(std::string_view name, std::string_view body) {
  const std::string_view json = trimmed(body);
  return make_call(name, json.empty() ? Json::object() : parse_json(json));
}

std::optional<ReplyPart> parse_call(const ReplyFormat& format, std::string_view body, const Json& tools) {
  switch (format.call_syntax) {
    case CallSyntax::none:
    case CallSyntax::channels:  // the name is not in the body
      return std::nullopt;
    case CallSyntax::json:
      return parse_json_call(body);
    case CallSyntax::key_value:
      return parse_key_value_call(body, tools);
    case CallSyntax::separated:
      return parse_separated_call(body, format.separator);
  }
  return std::nullopt;
}

bool ValueScanner::ends_inside(std::string_view body) {
  if (syntax_ == CallSyntax::key_value) {
    constexpr std::array<std::string_view, 2> kBorders = {"<arg_value>", "</arg_value>"};
    for (FoundMarker found = find_first_marker(body, kBorders, scanned_); !found.marker.empty();
         found = find_first_marker(body, kBorders, scanned_)) {
      inside_ = found.marker == kBorders[0];
      scanned_ = found.at + found.marker.size();
    }
    return inside_;
  }
  for (; scanned_ < body.size(); ++scanned_) {
    const char c = body[scanned_];
    if (escaped_) {
      escaped_ = false;
    } else if (inside_ && c == '\\') {
      escaped_ = true;
    } else if (c == '"') {
      inside_ = !inside_;
    }
  }
  return inside_;
}

}  // namespace tagalong::tokenizer
