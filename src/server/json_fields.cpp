#include "server/json_fields.h"

#include "server/api_error.h"

namespace tagalong::server {
namespace {

constexpr int kMaxDepth = 64;

// Whether brackets nest deeper than the limit. Reads no more than it must to know what is a string.
bool too_deep(std::string_view body) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < body.size(); ++i) {
    const char c = body[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

}  // namespace

Json parse_json_body(std::string_view body) {
  const auto fail = [](std::string message) {
    return ApiException({.message = std::move(message), .code = "invalid_json"});
  };
  if (body.empty()) throw fail("the request has no body; a JSON object is expected");
  if (too_deep(body)) throw fail(fmt::format("the body nests deeper than {} levels", kMaxDepth));
  Json json;
  try {
    json = Json::parse(body);
  } catch (const Json::parse_error& e) {
    // The library's text quotes the body.
    throw fail(
        fmt::format("the body is not valid JSON in UTF-8: error at byte {} of {}", e.byte, body.size()));
  } catch (const Json::out_of_range&) {
    throw fail("the body has a number out of range");
  }
  if (!json.is_object()) throw fail(fmt::format("the body must be a JSON object, got {}", describe(json)));
  return json;
}

std::string describe(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::boolean:
      return value.get<bool>() ? "true" : "false";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::array:
      return value.empty() ? "an empty array" : "an array";
    case Json::value_t::object:
      return "an object";
    default:
      return value.dump();  // a number
  }
}

JsonFields::JsonFields(const Json& object, std::string path) : object_(object), path_(std::move(path)) {
  if (object.is_object()) return;
  std::string name = path_;
  if (name.ends_with('.')) name.pop_back();
  throw bad_field(name, "must be an object, got {}", describe(object));
}

const Json* JsonFields::find(std::string_view name) {
  known_.emplace(name);
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<bool> JsonFields::boolean(std::string_view name) {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_boolean()) throw bad_field(path(name), "must be true or false, got {}", describe(*value));
  return value->get<bool>();
}

std::optional<double> JsonFields::number(std::string_view name, double least, double most) {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_number()) throw bad_field(path(name), "must be a number, got {}", describe(*value));
  const double number = value->get<double>();
  if (!(number >= least && number <= most)) {
    throw bad_field(path(name), "must be between {} and {}, got {}", least, most, describe(*value));
  }
  return number;
}

std::optional<std::int64_t> JsonFields::integer(std::string_view name, std::int64_t least,
                                                std::int64_t most) {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_number_integer())
    throw bad_field(path(name), "must be an integer, got {}", describe(*value));
  const bool huge = value->is_number_unsigned() && value->get<std::uint64_t>() > INT64_MAX;
  if (huge || value->get<std::int64_t>() < least || value->get<std::int64_t>() > most) {
    throw bad_field(path(name), "must be between {} and {}, got {}", least, most, describe(*value));
  }
  return value->get<std::int64_t>();
}

std::optional<std::string> JsonFields::string(std::string_view name) {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_string()) throw bad_field(path(name), "must be a string, got {}", describe(*value));
  return value->get<std::string>();
}

void JsonFields::reject_others() const {
  for (const auto& [name, value] : object_.items()) {
    if (known_.contains(name) || value.is_null()) continue;
    ApiException error = bad_field(path(name.substr(0, 100)), "is not a known field");
    error.error.code = "unknown_parameter";
    throw error;
  }
}

}  // namespace tagalong::server
