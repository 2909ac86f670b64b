// What the language offers by name: filters, tests, methods, functions.
//
// Pure functions of their arguments, except that work is charged to the interpreter. One rendering, one
// thread.
#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "tokenizer/jinja/value.h"

namespace tagalong::tokenizer::jinja {

bool is_filter(std::string_view name);
bool is_test(std::string_view name);

// The name must be that of a filter, or test.
Value apply_filter(Interpreter& interpreter, std::string_view name, const Value& value,
                   const Arguments& arguments);
bool apply_test(std::string_view name, const Value& value, const Arguments& arguments);

// A method of a string, list or dict, as something to call, or what a loop knows about itself; nothing if
// there is none of that name.
std::optional<Value> builtin_member(const Value& object, std::string_view name);
// range, namespace, dict, raise_exception, strftime_now.
std::optional<Value> global_function(std::string_view name);

// The argument for each name, null where absent. Throws InputError for too many and for unknown names.
std::vector<const Value*> bind(const Arguments& arguments, std::string_view function,
                               std::initializer_list<std::string_view> names);
// As bind, but an absent one, from the index `required` down, is an error.
std::vector<const Value*> bind_all(const Arguments& arguments, std::string_view function,
                                   std::initializer_list<std::string_view> names, std::size_t required);

const Text& text_argument(const Value& value, std::string_view function);
std::int64_t int_argument(const Value& value, std::string_view function);

}  // namespace tagalong::tokenizer::jinja
