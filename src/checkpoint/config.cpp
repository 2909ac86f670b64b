#include "checkpoint/config.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/mapped_file.h"
#include "checkpoint/quote.h"

namespace tagalong::checkpoint {

namespace {

using base::input_error;
using nlohmann::json;

constexpr std::size_t kMaxFileBytes = std::size_t{16} << 20;
constexpr int kMaxDepth = 64;

// Parses `text`, refusing what nlohmann would let pass: deep nesting, and keys given twice (of which it would
// silently keep the last).
json parse_strictly(std::string_view text, std::string_view origin) {
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth > kMaxDepth) throw input_error("{}: nested deeper than {} levels", origin, kMaxDepth);
    if (event == json::parse_event_t::object_start) {
      keys.emplace_back();
    } else if (event == json::parse_event_t::object_end) {
      keys.pop_back();
    } else if (event == json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys.back().insert(key).second) throw input_error("{}: key {} occurs twice", origin, quote(key));
    }
    return true;
  };
  try {
    return json::parse(text, watch);
  } catch (const json::exception& error) {
    // what() is "[json.exception.parse_error.101] parse error at line 1, ...": the tag is of no use to a
    // reader.
    std::string_view reason = error.what();
    if (const auto tag = reason.find("] "); tag != std::string_view::npos) reason.remove_prefix(tag + 2);
    throw input_error("{}: not valid JSON: {}", origin, reason);
  }
}

// A value as a message shows it: short, and without what a terminal would obey.
std::string show(const json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array";
  if (value.is_string()) return "the string " + quote(value.get_ref<const std::string&>());
  return value.dump();
}

}  // namespace

Config Config::load(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / "config.json";
  return parse(base::read_text_file(path, kMaxFileBytes), path.string());
}

Config Config::parse(std::string_view text, std::string origin) {
  auto root = std::make_shared<const json>(parse_strictly(text, origin));
  if (!root->is_object()) throw input_error("{}: expected an object, found {}", origin, show(*root));
  const json* node = root.get();
  return Config(std::move(root), node, std::move(origin), "");
}

const json* Config::find(std::string_view key) const {
  const auto found = node_->find(key);
  return found == node_->end() || found->is_null() ? nullptr : &*found;
}

std::string Config::full_name(std::string_view key) const { return quote(path_ + std::string(key)); }

const json& Config::require(std::string_view key) const {
  const json* value = find(key);
  if (value == nullptr) throw input_error("{}: missing key {}", origin_, full_name(key));
  return *value;
}

void Config::wrong_type(std::string_view key, std::string_view expected, const json& found) const {
  throw input_error("{}: key {}: expected {}, found {}", origin_, full_name(key), expected, show(found));
}

void Config::fail(std::string_view key, std::string_view message) const {
  throw input_error("{}: key {}: {}", origin_, full_name(key), message);
}

bool Config::has(std::string_view key) const { return find(key) != nullptr; }

std::vector<std::string> Config::keys() const {
  std::vector<std::string> names;
  for (const auto& item : node_->items()) {
    if (!item.value().is_null()) names.push_back(item.key());
  }
  return names;
}

std::int64_t Config::to_integer(std::string_view key, const json& value, IntegerRange range) const {
  if (!value.is_number_integer()) wrong_type(key, "an integer", value);
  const bool too_large =
      value.is_number_unsigned() &&
      value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (too_large || value.get<std::int64_t>() < range.min || value.get<std::int64_t>() > range.max) {
    wrong_type(key, fmt::format("an integer from {} to {}", range.min, range.max), value);
  }
  return value.get<std::int64_t>();
}

double Config::to_real(std::string_view key, const json& value, RealRange range) const {
  if (!value.is_number()) wrong_type(key, "a number", value);
  const auto number = value.get<double>();
  if (!std::isfinite(number) || number < range.min || number > range.max) {
    wrong_type(key, fmt::format("a number from {} to {}", range.min, range.max), value);
  }
  return number;
}

std::int64_t Config::integer(std::string_view key, IntegerRange range) const {
  return to_integer(key, require(key), range);
}

std::int64_t Config::integer_or(std::string_view key, std::int64_t fallback, IntegerRange range) const {
  const json* value = find(key);
  return value == nullptr ? fallback : to_integer(key, *value, range);
}

double Config::real(std::string_view key, RealRange range) const { return to_real(key, require(key), range); }

double Config::real_or(std::string_view key, double fallback, RealRange range) const {
  const json* value = find(key);
  return value == nullptr ? fallback : to_real(key, *value, range);
}

bool Config::boolean(std::string_view key) const {
  const json& value = require(key);
  if (!value.is_boolean()) wrong_type(key, "true or false", value);
  return value.get<bool>();
}

bool Config::boolean_or(std::string_view key, bool fallback) const {
  return has(key) ? boolean(key) : fallback;
}

std::string Config::string(std::string_view key) const {
  const json& value = require(key);
  if (!value.is_string()) wrong_type(key, "a string", value);
  return value.get<std::string>();
}

std::string Config::string_or(std::string_view key, std::string_view fallback) const {
  return has(key) ? string(key) : std::string(fallback);
}

std::vector<std::int64_t> Config::integers(std::string_view key, IntegerRange range) const {
  const json& value = require(key);
  if (value.is_number_integer()) return {to_integer(key, value, range)};
  if (!value.is_array()) wrong_type(key, "an array of integers", value);
  std::vector<std::int64_t> list;
  list.reserve(value.size());
  for (const json& item : value) {
    list.push_back(to_integer(fmt::format("{}[{}]", key, list.size()), item, range));
  }
  return list;
}

std::vector<std::string> Config::strings(std::string_view key) const {
  const json& value = require(key);
  if (!value.is_array()) wrong_type(key, "an array of strings", value);
  std::vector<std::string> list;
  list.reserve(value.size());
  for (const json& item : value) {
    if (!item.is_string()) wrong_type(fmt::format("{}[{}]", key, list.size()), "a string", item);
    list.push_back(item.get<std::string>());
  }
  return list;
}

Config Config::object(std::string_view key) const {
  const json& value = require(key);
  if (!value.is_object()) wrong_type(key, "an object", value);
  return Config(root_, &value, origin_, path_ + std::string(key) + ".");
}

std::optional<Config> Config::optional_object(std::string_view key) const {
  if (!has(key)) return std::nullopt;
  return object(key);
}

double Config::rope_theta(std::optional<double> fallback) const {
  constexpr RealRange kTheta{.min = 1.0, .max = 1e15};
  if (const auto parameters = optional_object("rope_parameters");
      parameters && parameters->has("rope_theta")) {
    return parameters->real("rope_theta", kTheta);
  }
  return fallback && !has("rope_theta") ? *fallback : real("rope_theta", kTheta);
}

}  // namespace tagalong::checkpoint
