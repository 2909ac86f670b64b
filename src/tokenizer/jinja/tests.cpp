// Tests: `value is name`.
#include <algorithm>

#include "base/error.h"
#include "tokenizer/jinja/builtins.h"
#include "tokenizer/jinja/string_ops.h"

namespace tagalong::tokenizer::jinja {
namespace {

using Test = bool (*)(const Value&);
using TestWith = bool (*)(const Value&, const Value&);

std::int64_t integer(const Value& value) { return int_argument(value, "this test"); }

std::int64_t remainder(const Value& value, const Value& by) {
  if (integer(by) == 0) throw base::input_error("divisibleby: division by zero");
  return integer(by) == -1 ? 0 : integer(value) % integer(by);
}

constexpr std::pair<std::string_view, Test> kTests[] = {
    {"defined", [](const Value& v) { return !v.is_undefined(); }},
    {"undefined", [](const Value& v) { return v.is_undefined(); }},
    {"none", [](const Value& v) { return v.is_none(); }},
    {"string", [](const Value& v) { return v.is_string(); }},
    {"mapping", [](const Value& v) { return v.is_dict(); }},
    {"iterable", [](const Value& v) { return is_iterable(v); }},
    {"sequence", [](const Value& v) { return is_iterable(v); }},
    {"number", [](const Value& v) { return v.is_number(); }},
    {"integer", [](const Value& v) { return v.is<std::int64_t>(); }},
    {"float", [](const Value& v) { return v.is<double>(); }},
    {"boolean", [](const Value& v) { return v.is<bool>(); }},
    {"true", [](const Value& v) { return v.is<bool>() && v.get<bool>(); }},
    {"false", [](const Value& v) { return v.is<bool>() && !v.get<bool>(); }},
    {"callable", [](const Value& v) { return v.is<std::shared_ptr<const Callable>>(); }},
    {"odd", [](const Value& v) { return (integer(v) & 1) == 1; }},
    {"even", [](const Value& v) { return (integer(v) & 1) == 0; }},
    {"lower",
     [](const Value& v) {
       const std::string text = to_text(v).bytes;
       return text == to_lower(text) && text != to_upper(text);
     }},
    {"upper",
     [](const Value& v) {
       const std::string text = to_text(v).bytes;
       return text == to_upper(text) && text != to_lower(text);
     }},
};

constexpr std::pair<std::string_view, TestWith> kTestsWith[] = {
    {"eq", [](const Value& v, const Value& w) { return equal(v, w); }},
    {"equalto", [](const Value& v, const Value& w) { return equal(v, w); }},
    {"ne", [](const Value& v, const Value& w) { return !equal(v, w); }},
    {"lt", [](const Value& v, const Value& w) { return compare(v, w) < 0; }},
    {"lessthan", [](const Value& v, const Value& w) { return compare(v, w) < 0; }},
    {"le", [](const Value& v, const Value& w) { return compare(v, w) <= 0; }},
    {"gt", [](const Value& v, const Value& w) { return compare(v, w) > 0; }},
    {"greaterthan", [](const Value& v, const Value& w) { return compare(v, w) > 0; }},
    {"ge", [](const Value& v, const Value& w) { return compare(v, w) >= 0; }},
    {"in", [](const Value& v, const Value& w) { return contains(w, v); }},
    {"divisibleby", [](const Value& v, const Value& w) { return remainder(v, w) == 0; }},
    {"sameas",
     [](const Value& v, const Value& w) { return v.data().index() == w.data().index() && equal(v, w); }},
};

template <typename Table>
const auto* find(const Table& table, std::string_view name) {
  const auto found =
      std::find_if(std::begin(table), std::end(table), [&](const auto& row) { return row.first == name; });
  return found == std::end(table) ? nullptr : &found->second;
}

}  // namespace

bool is_test(std::string_view name) {
  return find(kTests, name) != nullptr || find(kTestsWith, name) != nullptr;
}

bool apply_test(std::string_view name, const Value& value, const Arguments& arguments) {
  if (const Test* test = find(kTests, name)) {
    bind(arguments, name, {});
    return (*test)(value);
  }
  const auto args = bind_all(arguments, name, {"other"}, 1);
  return (*find(kTestsWith, name))(value, *args[0]);
}

}  // namespace tagalong::tokenizer::jinja
