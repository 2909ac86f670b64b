// Filters: `value | name(arguments)`.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "tokenizer/jinja/builtins.h"
#include "tokenizer/jinja/interpreter.h"
#include "tokenizer/jinja/string_ops.h"
#include "tokenizer/utf8.h"

namespace tagalong::tokenizer::jinja {
namespace {

using Call = Value (*)(Interpreter&, const Value&, const Arguments&);

bool flag(const Value* value, bool absent) { return value == nullptr ? absent : value->truthy(); }

// attribute="a.b.0" of sort, map, join and their like.
Value path(Interpreter& interpreter, Value value, const Value& attribute) {
  if (attribute.is_integral()) return interpreter.item(value, attribute);
  for (const Text& part : split(text_argument(attribute, "attribute"), ".", -1)) {
    value = interpreter.item(value, Value::text(part));
  }
  return value;
}

// The key that sorting compares: without case, unless it is asked for.
Value sort_key(Interpreter& interpreter, const Value& value, const Value* attribute, bool case_sensitive) {
  Value key = attribute == nullptr || attribute->is_none() ? value : path(interpreter, value, *attribute);
  return key.is_string() && !case_sensitive ? Value::text(to_lower(key.as_text().bytes)) : key;
}

Value to_json_filter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const auto args = bind(arguments, "tojson", {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = flag(args[0], false);
  style.sort_keys = flag(args[3], false);
  if (args[1] != nullptr && !args[1]->is_none()) {
    style.pretty = true;
    style.item_separator = std::string(1, ',');
    if (args[1]->is_string()) {
      style.indent = args[1]->as_text().bytes;
    } else {
      style.indent.assign(
          static_cast<std::size_t>(std::clamp<std::int64_t>(int_argument(*args[1], "tojson"), 0, 64)), ' ');
    }
  }
  if (args[2] != nullptr && !args[2]->is_none()) {
    const auto separators = interpreter.items(*args[2]);
    if (separators.size() != 2) throw base::input_error("tojson: separators must be two");
    style.item_separator = text_argument(separators[0], "tojson").bytes;
    style.key_separator = text_argument(separators[1], "tojson").bytes;
  }
  Text text = to_json(value, style);
  interpreter.charge_text(text.bytes.size());
  return Value::text(std::move(text));
}

Value length(Interpreter&, const Value& value, const Arguments& arguments) {
  bind(arguments, "length", {});
  return length_of(value);
}

Value trim(Interpreter&, const Value& value, const Arguments& arguments) {
  const auto args = bind(arguments, "trim", {"chars"});
  const Text text = to_text(value);
  const bool given = args[0] != nullptr && !args[0]->is_none();
  const ByteRange kept =
      stripped(text.bytes, given ? text_argument(*args[0], "trim").bytes : "", StripSide::both);
  return Value::text(text.sub(kept.begin, kept.end));
}

template <std::string (*map)(std::string_view)>
Value mapped_text(Interpreter&, const Value& value, const Arguments& arguments) {
  bind(arguments, "a case filter", {});
  const Text text = to_text(value);
  return Value::text(text.with_bytes(map(text.bytes)));
}

// Upper after white space, hyphens and opening brackets; unlike str.title.
std::string title(std::string_view text) {
  std::string out;
  bool start = true;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    const std::string_view bytes = text.substr(at, c.length);
    out += start ? to_upper(bytes) : to_lower(bytes);
    start = is_python_space(c.value) ||
            (c.value < 0x80 && std::string_view("-({[<").find(bytes[0]) != std::string_view::npos);
    at += c.length;
  }
  return out;
}

Value join(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const auto args = bind(arguments, "join", {"d", "attribute"});
  const Text separator = args[0] == nullptr ? Text() : to_text(*args[0]);
  Text out;
  bool first = true;
  for (const Value& item : interpreter.items(value)) {
    const Text part = to_text(args[1] == nullptr ? item : path(interpreter, item, *args[1]));
    interpreter.charge_text(separator.bytes.size() + part.bytes.size());
    if (!first) out.append(separator);
    first = false;
    out.append(part);
  }
  interpreter.charge_text(out.bytes.size());
  return Value::text(std::move(out));
}

Value replace_filter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  return interpreter.call(*builtin_member(Value::text(to_text(value)), "replace"), arguments);
}

Value fallback(Interpreter&, const Value& value, const Arguments& arguments) {
  const auto args = bind(arguments, "default", {"default_value", "boolean"});
  if (!value.is_undefined() && !(flag(args[1], false) && !value.truthy())) return value;
  return args[0] == nullptr ? Value::text("") : *args[0];
}

Value first(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  bind(arguments, "first", {});
  const auto items = interpreter.items(value);
  return items.empty() ? Value::undefined("No first item, sequence was empty.") : items.front();
}

Value last(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  bind(arguments, "last", {});
  const auto items = interpreter.items(value);
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

Value list(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  bind(arguments, "list", {});
  return Value::list(interpreter.items(value));
}

Value string(Interpreter&, const Value& value, const Arguments& arguments) {
  bind(arguments, "string", {});
  return Value::text(to_text(value));
}

Value integer(Interpreter&, const Value& value, const Arguments& arguments) {
  const auto args = bind(arguments, "int", {"default", "base"});
  const Value absent = args[0] == nullptr ? Value(std::int64_t{0}) : *args[0];
  if (value.is_integral()) return value.as_int();
  double real = 0;
  if (value.is<double>()) {
    real = value.as_double();
  } else if (value.is_string()) {
    const ByteRange kept = stripped(value.as_text().bytes, "", StripSide::both);
    std::string_view text = std::string_view(value.as_text().bytes).substr(kept.begin, kept.end - kept.begin);
    if (text.starts_with('+')) text.remove_prefix(1);
    std::int64_t base = args[1] == nullptr ? 10 : int_argument(*args[1], "int");
    if ((base == 0 || base == 16) && (text.starts_with("0x") || text.starts_with("0X"))) {
      text.remove_prefix(2);
      base = 16;
    }
    if (base == 0) base = 10;
    if (base < 2 || base > 36) throw base::input_error("int: base {} is not supported", base);
    std::int64_t number = 0;
    const auto whole =
        std::from_chars(text.data(), text.data() + text.size(), number, static_cast<int>(base));
    if (whole.ec == std::errc() && whole.ptr == text.data() + text.size()) return number;
    const auto part = std::from_chars(text.data(), text.data() + text.size(), real);
    if (part.ec != std::errc() || part.ptr != text.data() + text.size()) return absent;
  } else {
    return absent;
  }
  return std::isfinite(real) && std::fabs(real) < 9.2e18 ? Value(static_cast<std::int64_t>(real)) : absent;
}

Value real(Interpreter&, const Value& value, const Arguments& arguments) {
  const auto args = bind(arguments, "float", {"default"});
  if (value.is_number()) return value.as_double();
  if (value.is_string()) {
    const ByteRange kept = stripped(value.as_text().bytes, "", StripSide::both);
    const std::string_view text =
        std::string_view(value.as_text().bytes).substr(kept.begin, kept.end - kept.begin);
    double number = 0;
    const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
    if (end.ec == std::errc() && end.ptr == text.data() + text.size()) return number;
  }
  return args[0] == nullptr ? Value(0.0) : *args[0];
}

Value absolute(Interpreter&, const Value& value, const Arguments& arguments) {
  bind(arguments, "abs", {});
  if (value.is<double>()) return std::fabs(value.as_double());
  const std::int64_t number = int_argument(value, "abs");
  if (number == INT64_MIN) throw base::input_error("an integer is too large");
  return number < 0 ? -number : number;
}

Value round_filter(Interpreter&, const Value& value, const Arguments& arguments) {
  const auto args = bind(arguments, "round", {"precision", "method"});
  if (!value.is_number()) throw base::input_error("round expects a number, not a {}", value.type_name());
  const std::int64_t precision = args[0] == nullptr ? 0 : int_argument(*args[0], "round");
  const std::string_view method =
      args[1] == nullptr ? "common" : std::string_view(text_argument(*args[1], "round").bytes);
  if (precision < 0 || precision > 15)
    throw base::input_error("round: precision {} is not supported", precision);
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = value.as_double() * scale;
  if (method == "common") return std::nearbyint(scaled) / scale;
  if (method == "ceil") return std::ceil(scaled) / scale;
  if (method == "floor") return std::floor(scaled) / scale;
  throw base::input_error("round: unknown method \"{}\"", method);
}

Value reverse(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  bind(arguments, "reverse", {});
  auto items = interpreter.items(value);
  std::reverse(items.begin(), items.end());
  if (!value.is_string()) return Value::list(std::move(items));
  Text text;
  for (const Value& item : items) text.append(item.as_text());
  return Value::text(std::move(text));
}

Value sort(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const auto args = bind(arguments, "sort", {"reverse", "case_sensitive", "attribute"});
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& item : interpreter.items(value)) {
    Value key = sort_key(interpreter, item, args[2], flag(args[1], false));
    keyed.emplace_back(std::move(key), std::move(item));
  }
  interpreter.charge(8 * weight_of(value));
  const bool backwards = flag(args[0], false);
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return backwards ? compare(b.first, a.first) < 0 : compare(a.first, b.first) < 0;
  });
  std::vector<Value> items;
  for (auto& [key, item] : keyed) items.push_back(std::move(item));
  return Value::list(std::move(items));
}

Value dict_sort(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const auto args = bind(arguments, "dictsort", {"case_sensitive", "by", "reverse"});
  if (!value.is_dict()) throw base::input_error("dictsort expects a dict, not a {}", value.type_name());
  const std::string_view by =
      args[1] == nullptr ? "key" : std::string_view(text_argument(*args[1], "dictsort").bytes);
  if (by != "key" && by != "value")
    throw base::input_error("dictsort: by \"{}\" is neither key nor value", by);
  std::vector<Value> pairs;
  for (const auto& [key, item] : value.as_dict().items) pairs.push_back(Value::list({key, item}, true));
  Arguments sorting;
  sorting.named = {{"reverse", Value(flag(args[2], false))},
                   {"case_sensitive", Value(flag(args[0], false))},
                   {"attribute", Value(std::int64_t{by == "key" ? 0 : 1})}};
  return sort(interpreter, Value::list(std::move(pairs)), sorting);
}

Value unique(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const auto args = bind(arguments, "unique", {"case_sensitive", "attribute"});
  std::vector<Value> keys;
  std::vector<Value> items;
  for (Value& item : interpreter.items(value)) {
    Value key = sort_key(interpreter, item, args[1], flag(args[0], false));
    interpreter.charge(1 + keys.size() * weight_of(key) / 4);
    if (std::any_of(keys.begin(), keys.end(), [&](const Value& known) { return equal(known, key); }))
      continue;
    keys.push_back(std::move(key));
    items.push_back(std::move(item));
  }
  return Value::list(std::move(items));
}

Value items(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  bind(arguments, "items", {});
  if (value.is_undefined()) return Value::list({});
  if (!value.is_dict()) throw base::input_error("items expects a dict, not a {}", value.type_name());
  return interpreter.call(*builtin_member(value, "items"), {});
}

// The arguments from `index` on, for the filter or test that is named by the one before.
Arguments tail(const Arguments& arguments, std::size_t index) {
  Arguments rest;
  rest.named = arguments.named;
  for (std::size_t i = index; i < arguments.positional.size(); ++i)
    rest.positional.push_back(arguments.positional[i]);
  return rest;
}

Value map(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  std::vector<Value> result;
  if (arguments.positional.empty()) {
    const auto args = bind_all(arguments, "map", {"attribute", "default"}, 1);
    for (const Value& item : interpreter.items(value)) {
      Value member = path(interpreter, item, *args[0]);
      result.push_back(member.is_undefined() && args[1] != nullptr ? *args[1] : std::move(member));
    }
    return Value::list(std::move(result));
  }
  const std::string& name = text_argument(arguments.positional[0], "map").bytes;
  if (!is_filter(name)) throw base::input_error("there is no filter \"{}\"", name);
  const Arguments rest = tail(arguments, 1);
  for (const Value& item : interpreter.items(value)) {
    interpreter.charge(1);
    result.push_back(apply_filter(interpreter, name, item, rest));
  }
  return Value::list(std::move(result));
}

enum class Keep { passing, failing };
enum class Subject { item, member };
template <Keep keep, Subject subject>
Value select(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const std::size_t first_argument = subject == Subject::member ? 1 : 0;
  if (arguments.positional.size() < first_argument) throw base::input_error("selectattr needs an attribute");
  const bool has_test = arguments.positional.size() > first_argument;
  const std::string_view name =
      has_test ? std::string_view(text_argument(arguments.positional[first_argument], "select").bytes) : "";
  if (has_test && !is_test(name)) throw base::input_error("there is no test \"{}\"", name);
  const Arguments rest = tail(arguments, first_argument + 1);
  std::vector<Value> result;
  for (Value& item : interpreter.items(value)) {
    interpreter.charge(1);
    const Value tested = subject == Subject::member ? path(interpreter, item, arguments.positional[0]) : item;
    const bool passes = has_test ? apply_test(name, tested, rest) : tested.truthy();
    if (passes == (keep == Keep::passing)) result.push_back(std::move(item));
  }
  return Value::list(std::move(result));
}

template <int sign>
Value extreme(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const auto args = bind(arguments, "min and max", {"case_sensitive", "attribute"});
  const auto all = interpreter.items(value);
  if (all.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  std::size_t best = 0;
  for (std::size_t i = 1; i < all.size(); ++i) {
    const Value key = sort_key(interpreter, all[i], args[1], flag(args[0], false));
    const Value best_key = sort_key(interpreter, all[best], args[1], flag(args[0], false));
    if (sign * compare(key, best_key) > 0) best = i;
  }
  return all[best];
}

Value indent(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const auto args = bind(arguments, "indent", {"width", "first", "blank"});
  std::string margin;
  if (args[0] != nullptr && args[0]->is_string()) {
    margin = args[0]->as_text().bytes;
  } else {
    const std::int64_t width = args[0] == nullptr ? 4 : int_argument(*args[0], "indent");
    margin.assign(static_cast<std::size_t>(std::clamp<std::int64_t>(width, 0, 1000)), ' ');
  }
  Text text = to_text(value);
  text.append("\n");
  interpreter.charge(16 * static_cast<std::size_t>(std::count(text.bytes.begin(), text.bytes.end(), '\n')));
  const auto lines = split_lines(text);
  Text out;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    interpreter.charge_text(margin.size() + lines[i].bytes.size());
    if (i > 0) out.append("\n");
    const bool wanted = i == 0 ? flag(args[1], false) : flag(args[2], false) || !lines[i].bytes.empty();
    if (wanted) out.append(margin);
    out.append(lines[i]);
  }
  interpreter.charge_text(out.bytes.size());
  return Value::text(std::move(out));
}

Value safe(Interpreter&, const Value& value, const Arguments& arguments) {
  bind(arguments, "safe", {});
  return Value::text(to_text(value));
}

constexpr std::pair<std::string_view, Call> kFilters[] = {
    {"tojson", to_json_filter},
    {"length", length},
    {"count", length},
    {"trim", trim},
    {"upper", mapped_text<to_upper>},
    {"lower", mapped_text<to_lower>},
    {"capitalize", mapped_text<capitalized>},
    {"title", mapped_text<title>},
    {"join", join},
    {"replace", replace_filter},
    {"default", fallback},
    {"d", fallback},
    {"first", first},
    {"last", last},
    {"list", list},
    {"string", string},
    {"int", integer},
    {"float", real},
    {"abs", absolute},
    {"round", round_filter},
    {"reverse", reverse},
    {"sort", sort},
    {"dictsort", dict_sort},
    {"unique", unique},
    {"items", items},
    {"map", map},
    {"select", select<Keep::passing, Subject::item>},
    {"reject", select<Keep::failing, Subject::item>},
    {"selectattr", select<Keep::passing, Subject::member>},
    {"rejectattr", select<Keep::failing, Subject::member>},
    {"min", extreme<-1>},
    {"max", extreme<1>},
    {"indent", indent},
    {"safe", safe},
};

}  // namespace

bool is_filter(std::string_view name) {
  return std::any_of(std::begin(kFilters), std::end(kFilters),
                     [&](const auto& row) { return row.first == name; });
}

Value apply_filter(Interpreter& interpreter, std::string_view name, const Value& value,
                   const Arguments& arguments) {
  const auto found = std::find_if(std::begin(kFilters), std::end(kFilters),
                                  [&](const auto& row) { return row.first == name; });
  // Every filter may look at all of its value.
  interpreter.charge(weight_of(value));
  return found->second(interpreter, value, arguments);
}

}  // namespace tagalong::tokenizer::jinja
