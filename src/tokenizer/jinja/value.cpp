#include "tokenizer/jinja/value.h"

#include <algorithm>

#include "base/error.h"
#include "tokenizer/utf8.h"

namespace tagalong::tokenizer::jinja {
namespace {

// Values nest no deeper, so that the functions that walk them may recurse.
constexpr int kMaxNesting = 200;

int nesting(const Value& value) {
  if (value.is<std::shared_ptr<Namespace>>() || value.is<std::shared_ptr<Loop>>()) {
    throw base::input_error("a {} inside another value is not supported", value.type_name());
  }
  if (value.is_list()) return value.as_list().depth;
  return value.is_dict() ? value.as_dict().depth : 0;
}

// Lists that hold each other twice over and over would never be walked through to the end.
constexpr std::size_t kMaxWeight = 8'000'000;

std::size_t checked_weight(std::size_t weight) {
  if (weight > kMaxWeight) throw base::input_error("a value is too large");
  return weight;
}

int checked(int depth) {
  if (depth > kMaxNesting) throw base::input_error("values are nested deeper than {}", kMaxNesting);
  return depth;
}

}  // namespace

const Value* Dict::find(const Value& key) const {
  for (const auto& [name, value] : items) {
    if (equal(name, key)) return &value;
  }
  return nullptr;
}

const Value* Dict::find(std::string_view key) const {
  for (const auto& [name, value] : items) {
    if (name.is_string() && name.as_text().bytes == key) return &value;
  }
  return nullptr;
}

Value Value::list(std::vector<Value> items, bool tuple) {
  int depth = 0;
  std::size_t weight = 1;
  for (const Value& item : items) {
    depth = std::max(depth, nesting(item));
    weight = checked_weight(weight + weight_of(item));
  }
  return Value(std::make_shared<const List>(List{std::move(items), tuple, checked(depth + 1), weight}));
}

Value Value::dict(std::vector<std::pair<Value, Value>> items) {
  int depth = 0;
  std::size_t weight = 1;
  for (const auto& [key, value] : items) {
    depth = std::max(depth, nesting(value));
    weight = checked_weight(weight + weight_of(key) + weight_of(value));
  }
  return Value(std::make_shared<const Dict>(Dict{std::move(items), checked(depth + 1), weight}));
}

std::size_t weight_of(const Value& value) {
  if (value.is_string()) return 1 + value.as_text().bytes.size() / 16;
  if (value.is_list()) return value.as_list().weight;
  return value.is_dict() ? value.as_dict().weight : 1;
}

bool Value::truthy() const {
  if (is<bool>()) return get<bool>();
  if (is<std::int64_t>()) return get<std::int64_t>() != 0;
  if (is<double>()) return get<double>() != 0;
  if (is_string()) return !as_text().bytes.empty();
  if (is_list()) return !as_list().items.empty();
  if (is_dict()) return !as_dict().items.empty();
  return !is_undefined() && !is_none();
}

std::string_view Value::type_name() const {
  static constexpr std::string_view kNames[] = {"Undefined", "NoneType", "bool",       "int",
                                                "float",     "str",      "list",       "dict",
                                                "Namespace", "function", "LoopContext"};
  static_assert(std::size(kNames) == std::variant_size_v<Variant>);
  return is_list() && as_list().tuple ? "tuple" : kNames[data_.index()];
}

Value from_json(const nlohmann::ordered_json& json, Origin origin) {
  const auto make = [origin](std::string_view text) {
    require_utf8(text, "a string of the template's context");
    return Value::text(origin == Origin::user ? Text::from_user(text) : Text(text));
  };
  // Recursion is bounded by this count; Value::list and Value::dict look only at finished values.
  const auto convert = [&make](const auto& self, const nlohmann::ordered_json& node, int depth) -> Value {
    checked(depth);
    switch (node.type()) {
      case nlohmann::ordered_json::value_t::null:
        return None{};
      case nlohmann::ordered_json::value_t::boolean:
        return node.get<bool>();
      case nlohmann::ordered_json::value_t::number_integer:
        return node.get<std::int64_t>();
      case nlohmann::ordered_json::value_t::number_unsigned:
        if (node.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX)) {
          throw base::input_error("the integer {} is too large for a template", node.get<std::uint64_t>());
        }
        return node.get<std::int64_t>();
      case nlohmann::ordered_json::value_t::number_float:
        return node.get<double>();
      case nlohmann::ordered_json::value_t::string:
        return make(node.get_ref<const std::string&>());
      case nlohmann::ordered_json::value_t::array: {
        std::vector<Value> items;
        for (const auto& item : node) items.push_back(self(self, item, depth + 1));
        return Value::list(std::move(items));
      }
      case nlohmann::ordered_json::value_t::object: {
        std::vector<std::pair<Value, Value>> items;
        for (const auto& [key, item] : node.items())
          items.emplace_back(make(key), self(self, item, depth + 1));
        return Value::dict(std::move(items));
      }
      default:
        throw base::input_error("the template's context has a value that is not JSON");
    }
  };
  return convert(convert, json, 0);
}

bool equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return a.as_int() == b.as_int();
    return a.as_double() == b.as_double();
  }
  if (a.data().index() != b.data().index()) return false;
  if (a.is_string()) return a.as_text().bytes == b.as_text().bytes;
  if (a.is_list()) {
    const List& x = a.as_list();
    const List& y = b.as_list();
    return x.tuple == y.tuple &&
           std::equal(x.items.begin(), x.items.end(), y.items.begin(), y.items.end(), equal);
  }
  if (a.is_dict()) {
    const Dict& x = a.as_dict();
    const Dict& y = b.as_dict();
    return x.items.size() == y.items.size() &&
           std::all_of(x.items.begin(), x.items.end(), [&](const auto& item) {
             const Value* other = y.find(item.first);
             return other != nullptr && equal(item.second, *other);
           });
  }
  if (a.is_undefined() || a.is_none()) return true;
  if (a.is<std::shared_ptr<Namespace>>()) {
    return a.get<std::shared_ptr<Namespace>>() == b.get<std::shared_ptr<Namespace>>();
  }
  if (a.is<std::shared_ptr<Loop>>()) return a.get<std::shared_ptr<Loop>>() == b.get<std::shared_ptr<Loop>>();
  return a.get<std::shared_ptr<const Callable>>() == b.get<std::shared_ptr<const Callable>>();
}

int compare(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return a.as_int() < b.as_int() ? -1 : a.as_int() > b.as_int();
    return a.as_double() < b.as_double() ? -1 : a.as_double() > b.as_double();
  }
  if (a.is_string() && b.is_string()) {
    const int order = a.as_text().bytes.compare(b.as_text().bytes);
    return order < 0 ? -1 : order > 0;
  }
  if (a.is_list() && b.is_list() && a.as_list().tuple == b.as_list().tuple) {
    const auto& x = a.as_list().items;
    const auto& y = b.as_list().items;
    for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      if (!equal(x[i], y[i])) return compare(x[i], y[i]);
    }
    return x.size() < y.size() ? -1 : x.size() > y.size();
  }
  throw base::input_error("a {} and a {} have no order", a.type_name(), b.type_name());
}

bool is_iterable(const Value& value) {
  return value.is_undefined() || value.is_string() || value.is_list() || value.is_dict();
}

std::vector<Value> iterate(const Value& value) {
  std::vector<Value> items;
  if (value.is_list()) return value.as_list().items;
  if (value.is_dict()) {
    for (const auto& [key, item] : value.as_dict().items) items.push_back(key);
  } else if (value.is_string()) {
    const Text& text = value.as_text();
    const auto starts = code_point_starts(text.bytes);
    for (std::size_t i = 0; i + 1 < starts.size(); ++i)
      items.push_back(Value::text(text.sub(starts[i], starts[i + 1])));
  } else if (!value.is_undefined()) {
    throw base::input_error("a {} cannot be iterated over", value.type_name());
  }
  return items;
}

std::int64_t length_of(const Value& value) {
  if (value.is_list()) return static_cast<std::int64_t>(value.as_list().items.size());
  if (value.is_dict()) return static_cast<std::int64_t>(value.as_dict().items.size());
  if (value.is_undefined()) return 0;
  if (!value.is_string()) throw base::input_error("a {} has no length", value.type_name());
  const std::string& bytes = value.as_text().bytes;
  return std::count_if(bytes.begin(), bytes.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

bool contains(const Value& haystack, const Value& needle) {
  if (haystack.is_string()) {
    if (!needle.is_string())
      throw base::input_error("a {} cannot be looked for in a str", needle.type_name());
    return haystack.as_text().bytes.find(needle.as_text().bytes) != std::string::npos;
  }
  if (haystack.is_dict()) return haystack.as_dict().find(needle) != nullptr;
  if (haystack.is_list()) {
    const auto& items = haystack.as_list().items;
    return std::any_of(items.begin(), items.end(), [&](const Value& item) { return equal(item, needle); });
  }
  if (haystack.is_undefined()) return false;
  throw base::input_error("nothing can be looked for in a {}", haystack.type_name());
}

}  // namespace tagalong::tokenizer::jinja
