// The values of the template language: Python's, as far as templates need them.
//
// Values share what they hold; strings, lists and dicts never change once made, as in an immutable sandbox.
// Only a namespace changes. One rendering, one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tokenizer/jinja/text.h"

namespace tagalong::tokenizer::jinja {

class Value;
class Interpreter;

struct Undefined {
  std::string name;
};
struct None {};
struct List {
  std::vector<Value> items;
  bool tuple = false;
  int depth = 1;           // of nesting
  std::size_t weight = 1;  // see weight_of
};
struct Dict {
  std::vector<std::pair<Value, Value>> items;  // in order of insertion
  int depth = 1;
  std::size_t weight = 1;

  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
};
struct Namespace {
  std::vector<std::pair<std::string, Value>> members;
};
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};
struct Callable {
  std::string name;
  std::function<Value(Interpreter&, const Arguments&)> call;
};
struct Loop {
  std::vector<Value> items;
  std::size_t index = 0;
};

class Value {
 public:
  using Variant =
      std::variant<Undefined, None, bool, std::int64_t, double, std::shared_ptr<const Text>,
                   std::shared_ptr<const List>, std::shared_ptr<const Dict>, std::shared_ptr<Namespace>,
                   std::shared_ptr<const Callable>, std::shared_ptr<Loop>>;

  Value() : data_(Undefined{}) {}
  template <typename T>
  requires std::is_constructible_v<Variant, T> &&
      (!std::is_same_v<std::remove_cvref_t<T>, Value>)Value(T&& data)
      : data_(std::forward<T>(data)) {}  // NOLINT: a value is what it holds
  static Value text(Text text) { return Value(std::make_shared<const Text>(std::move(text))); }
  static Value text(std::string_view trusted) { return text(Text(trusted)); }
  // Throw InputError when nested too deep, when too heavy, or when a namespace is put in.
  static Value list(std::vector<Value> items, bool tuple = false);
  static Value dict(std::vector<std::pair<Value, Value>> items);
  static Value undefined(std::string_view name) { return Value(Undefined{std::string(name)}); }

  template <typename T>
  bool is() const {
    return std::holds_alternative<T>(data_);
  }
  template <typename T>
  const T& get() const {
    return std::get<T>(data_);
  }

  bool is_undefined() const { return is<Undefined>(); }
  bool is_none() const { return is<None>(); }
  bool is_string() const { return is<std::shared_ptr<const Text>>(); }
  bool is_list() const { return is<std::shared_ptr<const List>>(); }
  bool is_dict() const { return is<std::shared_ptr<const Dict>>(); }
  // An int, or a bool where Python takes one for an int.
  bool is_integral() const { return is<std::int64_t>() || is<bool>(); }
  bool is_number() const { return is_integral() || is<double>(); }

  const Text& as_text() const { return *get<std::shared_ptr<const Text>>(); }
  const List& as_list() const { return *get<std::shared_ptr<const List>>(); }
  const Dict& as_dict() const { return *get<std::shared_ptr<const Dict>>(); }
  std::int64_t as_int() const { return is<bool>() ? (get<bool>() ? 1 : 0) : get<std::int64_t>(); }
  double as_double() const { return is<double>() ? get<double>() : static_cast<double>(as_int()); }

  bool truthy() const;
  // What Python calls the type, for messages.
  std::string_view type_name() const;
  const Variant& data() const { return data_; }

 private:
  Variant data_;
};

// What walking through a value costs: one for each value in it and each 16 bytes. A list that holds another
// one twice is twice as heavy, though it takes no more memory.
std::size_t weight_of(const Value& value);

enum class Origin { trusted, user };

// All strings of the result, keys included, are marked with the origin. Throws InputError when nested too
// deep.
Value from_json(const nlohmann::ordered_json& json, Origin origin);

bool equal(const Value& a, const Value& b);
// Negative, zero or positive. Throws InputError where Python would raise TypeError.
int compare(const Value& a, const Value& b);

// The items that a for loop sees. Throws InputError for what is not iterable.
std::vector<Value> iterate(const Value& value);
bool is_iterable(const Value& value);
std::int64_t length_of(const Value& value);
// needle in haystack
bool contains(const Value& haystack, const Value& needle);

// str(value), and repr(value).
Text to_text(const Value& value);
std::string repr(const Value& value);
std::string repr(double value);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::string indent;  // of one level; without newline_separated it does not matter
  bool pretty = false;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
// json.dumps(value)
Text to_json(const Value& value, const JsonStyle& style);

}  // namespace tagalong::tokenizer::jinja
