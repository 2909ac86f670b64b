// Methods of strings, lists and dicts, and what a loop knows about itself.
#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/error.h"
#include "tokenizer/jinja/builtins.h"
#include "tokenizer/jinja/interpreter.h"
#include "tokenizer/jinja/string_ops.h"
#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"

namespace tagalong::tokenizer::jinja {
namespace {

using Call = Value (*)(Interpreter&, const Value&, const Arguments&);
struct Method {
  std::string_view name;
  Call call;
};

Value texts(std::vector<Text> parts) {
  std::vector<Value> items;
  for (Text& part : parts) items.push_back(Value::text(std::move(part)));
  return Value::list(std::move(items));
}

template <StripSide side>
Value strip(Interpreter&, const Value& self, const Arguments& arguments) {
  const auto args = bind(arguments, "strip", {"chars"});
  const Text& text = self.as_text();
  const bool given = args[0] != nullptr && !args[0]->is_none();
  if (given && text_argument(*args[0], "strip").bytes.empty()) return self;
  const ByteRange kept = stripped(text.bytes, given ? args[0]->as_text().bytes : "", side);
  return Value::text(text.sub(kept.begin, kept.end));
}

// Parts are many times larger than the bytes between them.
void charge_parts(Interpreter& interpreter, std::size_t parts) { interpreter.charge(16 * parts); }

std::size_t occurrences(std::string_view text, std::string_view needle) {
  std::size_t count = 0;
  for (std::size_t at = text.find(needle); at != text.npos; at = text.find(needle, at + needle.size()))
    ++count;
  return count;
}

// No fewer than there are cuts at white space or line ends.
std::size_t possible_cuts(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte <= ' ' || byte == 0xC2 || byte == 0xE1 || byte == 0xE2 || byte == 0xE3;
  }));
}

enum class From { left, right };
template <From from>
Value split_method(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const auto args = bind(arguments, "split", {"sep", "maxsplit"});
  const bool given = args[0] != nullptr && !args[0]->is_none();
  const std::string_view separator = given ? std::string_view(text_argument(*args[0], "split").bytes) : "";
  if (given && separator.empty()) throw base::input_error("split: an empty separator");
  const std::int64_t limit = args[1] == nullptr ? -1 : int_argument(*args[1], "split");
  charge_parts(interpreter,
               given ? occurrences(self.as_text().bytes, separator) : possible_cuts(self.as_text().bytes));
  if (from == From::left) return texts(split(self.as_text(), separator, limit));
  if (!given && limit >= 0) throw base::input_error("rsplit at white space with a limit is not supported");
  return texts(given ? split_from_right(self.as_text(), separator, limit) : split(self.as_text(), "", -1));
}

Value split_lines_method(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  bind(arguments, "splitlines", {});
  charge_parts(interpreter, possible_cuts(self.as_text().bytes));
  return texts(split_lines(self.as_text()));
}

enum class End { start, end };
template <End end>
Value has_affix(Interpreter&, const Value& self, const Arguments& arguments) {
  const auto args = bind_all(arguments, "startswith", {"affix"}, 1);
  const std::string& text = self.as_text().bytes;
  const auto matches = [&](const Value& affix) {
    const std::string& bytes = text_argument(affix, end == End::start ? "startswith" : "endswith").bytes;
    return end == End::start ? text.starts_with(bytes) : text.ends_with(bytes);
  };
  if (!args[0]->is_list()) return matches(*args[0]);
  const auto& affixes = args[0]->as_list().items;
  return std::any_of(affixes.begin(), affixes.end(), matches);
}

template <End end>
Value remove_affix(Interpreter&, const Value& self, const Arguments& arguments) {
  const auto args = bind_all(arguments, "removeprefix", {"affix"}, 1);
  const Text& text = self.as_text();
  const std::string& affix = text_argument(*args[0], "removeprefix").bytes;
  const std::size_t size = text.bytes.size();
  if (end == End::start && text.bytes.starts_with(affix)) return Value::text(text.sub(affix.size(), size));
  if (end == End::end && text.bytes.ends_with(affix)) return Value::text(text.sub(0, size - affix.size()));
  return self;
}

template <std::string (*map)(std::string_view)>
Value mapped(Interpreter&, const Value& self, const Arguments& arguments) {
  bind(arguments, "a case method", {});
  return Value::text(self.as_text().with_bytes(map(self.as_text().bytes)));
}

// str.title: the first letter of each run of letters upper, the others lower.
std::string title(std::string_view text) {
  const CodePointTable& table = CodePointTable::instance();
  std::string out;
  bool inside = false;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    const std::string_view bytes = text.substr(at, c.length);
    const bool letter = table.is(c.value, kLetters);
    out += !letter ? std::string(bytes) : inside ? to_lower(bytes) : capitalized(bytes);
    inside = letter;
    at += c.length;
  }
  return out;
}

Value replace_method(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const auto args = bind_all(arguments, "replace", {"old", "new", "count"}, 2);
  const std::int64_t count = args[2] == nullptr ? -1 : int_argument(*args[2], "replace");
  const Text& text = self.as_text();
  const Text& to = text_argument(*args[1], "replace");
  const std::string& from = text_argument(*args[0], "replace").bytes;
  // The most that the result can have, before it is made.
  interpreter.charge_text(text.bytes.size() +
                          (text.bytes.size() / std::max<std::size_t>(1, from.size()) + 1) * to.bytes.size());
  return Value::text(replace(text, from, to, count));
}

template <End end>
Value find(Interpreter&, const Value& self, const Arguments& arguments) {
  const auto args = bind_all(arguments, "find", {"sub"}, 1);
  const std::string& text = self.as_text().bytes;
  const std::string& needle = text_argument(*args[0], "find").bytes;
  const std::size_t at = end == End::start ? text.find(needle) : text.rfind(needle);
  if (at == std::string::npos) return std::int64_t{-1};
  return static_cast<std::int64_t>(code_point_starts(std::string_view(text).substr(0, at)).size() - 1);
}

Value count_text(Interpreter&, const Value& self, const Arguments& arguments) {
  const auto args = bind_all(arguments, "count", {"sub"}, 1);
  const std::string& needle = text_argument(*args[0], "count").bytes;
  if (needle.empty()) return length_of(self) + 1;
  return static_cast<std::int64_t>(occurrences(self.as_text().bytes, needle));
}

Value join_texts(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const auto args = bind_all(arguments, "join", {"items"}, 1);
  Text out;
  bool first = true;
  for (const Value& item : interpreter.items(*args[0])) {
    if (!first) out.append(self.as_text());
    first = false;
    out.append(text_argument(item, "join"));
    interpreter.charge_text(out.bytes.size() > 1u << 16 ? out.bytes.size() / 64 : 0);
  }
  interpreter.charge_text(out.bytes.size());
  return Value::text(std::move(out));
}

template <ClassSet set>
Value is_all(Interpreter&, const Value& self, const Arguments& arguments) {
  bind(arguments, "a character test", {});
  const std::string_view text = self.as_text().bytes;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    const bool in_set =
        set == kSpaces ? is_python_space(c.value) : CodePointTable::instance().is(c.value, set);
    if (!in_set) return false;
    at += c.length;
  }
  return !text.empty();
}

constexpr Method kStringMethods[] = {
    {"strip", strip<StripSide::both>},
    {"lstrip", strip<StripSide::left>},
    {"rstrip", strip<StripSide::right>},
    {"split", split_method<From::left>},
    {"rsplit", split_method<From::right>},
    {"splitlines", split_lines_method},
    {"startswith", has_affix<End::start>},
    {"endswith", has_affix<End::end>},
    {"removeprefix", remove_affix<End::start>},
    {"removesuffix", remove_affix<End::end>},
    {"upper", mapped<to_upper>},
    {"lower", mapped<to_lower>},
    {"capitalize", mapped<capitalized>},
    {"title", mapped<title>},
    {"replace", replace_method},
    {"find", find<End::start>},
    {"rfind", find<End::end>},
    {"count", count_text},
    {"join", join_texts},
    {"isspace", is_all<kSpaces>},
    {"isalpha", is_all<kLetters>},
    {"isdigit", is_all<set_of(CharClass::digit)>},
    {"isalnum", is_all<kLetters | kNumbers>},
};

Value dict_items(Interpreter&, const Value& self, const Arguments& arguments) {
  bind(arguments, "items", {});
  std::vector<Value> items;
  for (const auto& [key, value] : self.as_dict().items) items.push_back(Value::list({key, value}, true));
  return Value::list(std::move(items));
}

Value dict_keys(Interpreter&, const Value& self, const Arguments& arguments) {
  bind(arguments, "keys", {});
  return Value::list(iterate(self));
}

Value dict_values(Interpreter&, const Value& self, const Arguments& arguments) {
  bind(arguments, "values", {});
  std::vector<Value> items;
  for (const auto& item : self.as_dict().items) items.push_back(item.second);
  return Value::list(std::move(items));
}

Value dict_get(Interpreter&, const Value& self, const Arguments& arguments) {
  const auto args = bind_all(arguments, "get", {"key", "default"}, 1);
  if (const Value* value = self.as_dict().find(*args[0])) return *value;
  return args[1] == nullptr ? Value(None{}) : *args[1];
}

constexpr Method kDictMethods[] = {
    {"items", dict_items}, {"keys", dict_keys}, {"values", dict_values}, {"get", dict_get}};

Value list_count(Interpreter&, const Value& self, const Arguments& arguments) {
  const auto args = bind_all(arguments, "count", {"value"}, 1);
  const auto& items = self.as_list().items;
  return static_cast<std::int64_t>(
      std::count_if(items.begin(), items.end(), [&](const Value& item) { return equal(item, *args[0]); }));
}

Value list_index(Interpreter&, const Value& self, const Arguments& arguments) {
  const auto args = bind_all(arguments, "index", {"value"}, 1);
  const auto& items = self.as_list().items;
  const auto found =
      std::find_if(items.begin(), items.end(), [&](const Value& item) { return equal(item, *args[0]); });
  if (found == items.end()) throw base::input_error("index: the value is not in the list");
  return static_cast<std::int64_t>(found - items.begin());
}

constexpr Method kListMethods[] = {{"count", list_count}, {"index", list_index}};

// What the immutable sandbox forbids.
constexpr std::string_view kForbidden[] = {"append",  "extend", "insert",    "pop",    "remove",
                                           "reverse", "sort",   "clear",     "update", "setdefault",
                                           "popitem", "format", "format_map"};

std::optional<Value> loop_member(const std::shared_ptr<Loop>& loop, std::string_view name) {
  const auto number = [](std::size_t n) { return Value(static_cast<std::int64_t>(n)); };
  const std::size_t i = loop->index;
  const std::size_t n = loop->items.size();
  if (name == "index") return number(i + 1);
  if (name == "index0") return number(i);
  if (name == "revindex") return number(n - i);
  if (name == "revindex0") return number(n - i - 1);
  if (name == "first") return Value(i == 0);
  if (name == "last") return Value(i + 1 == n);
  if (name == "length") return number(n);
  // Only recursive loops, which this language has not, are deeper.
  if (name == "depth") return number(1);
  if (name == "depth0") return number(0);
  if (name == "previtem") return i > 0 ? loop->items[i - 1] : Value::undefined("there is no previous item");
  if (name == "nextitem") return i + 1 < n ? loop->items[i + 1] : Value::undefined("there is no next item");
  if (name == "cycle") {
    return Value(
        std::make_shared<const Callable>(Callable{"cycle", [i](Interpreter&, const Arguments& arguments) {
                                                    const auto& values = arguments.positional;
                                                    if (values.empty())
                                                      throw base::input_error("cycle: no values");
                                                    return values[i % values.size()];
                                                  }}));
  }
  return std::nullopt;
}

}  // namespace

std::optional<Value> builtin_member(const Value& object, std::string_view name) {
  if (object.is<std::shared_ptr<Loop>>()) return loop_member(object.get<std::shared_ptr<Loop>>(), name);
  std::span<const Method> methods;
  if (object.is_string()) methods = kStringMethods;
  if (object.is_dict()) methods = kDictMethods;
  if (object.is_list()) methods = kListMethods;
  for (const Method& method : methods) {
    if (method.name != name) continue;
    const auto call = [object, call = method.call](Interpreter& interpreter, const Arguments& arguments) {
      interpreter.charge(weight_of(object));
      return call(interpreter, object, arguments);
    };
    return Value(std::make_shared<const Callable>(Callable{std::string(name), call}));
  }
  const bool forbidden =
      std::find(std::begin(kForbidden), std::end(kForbidden), name) != std::end(kForbidden);
  const bool own_key = object.is_dict() && object.as_dict().find(name) != nullptr;
  if (forbidden && !methods.empty() && !own_key) {
    throw base::input_error("the method \"{}\" of a {} is not allowed", name, object.type_name());
  }
  return std::nullopt;
}

}  // namespace tagalong::tokenizer::jinja
