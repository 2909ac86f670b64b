// Arguments of builtins, and the functions that every template sees.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "base/error.h"
#include "tokenizer/jinja/builtins.h"
#include "tokenizer/jinja/interpreter.h"
#include "tokenizer/utf8.h"

namespace tagalong::tokenizer::jinja {
namespace {

// As the sandbox of Jinja2.
constexpr std::int64_t kMaxRange = 100000;

Value range(Interpreter& interpreter, const Arguments& arguments) {
  const auto args = bind_all(arguments, "range", {"start", "stop", "step"}, 1);
  std::int64_t start = args[1] == nullptr ? 0 : int_argument(*args[0], "range");
  const std::int64_t stop = int_argument(*args[args[1] == nullptr ? 0 : 1], "range");
  const std::int64_t step = args[2] == nullptr ? 1 : int_argument(*args[2], "range");
  if (step == 0) throw base::input_error("range: the step is zero");
  std::vector<Value> items;
  while (step > 0 ? start < stop : start > stop) {
    if (static_cast<std::int64_t>(items.size()) >= kMaxRange) {
      throw base::input_error("range: more than {} numbers", kMaxRange);
    }
    items.emplace_back(start);
    if (__builtin_add_overflow(start, step, &start)) break;
  }
  interpreter.charge(items.size());
  return Value::list(std::move(items));
}

Value make_namespace(Interpreter&, const Arguments& arguments) {
  auto result = std::make_shared<Namespace>();
  for (const Value& value : arguments.positional) {
    if (!value.is_dict()) throw base::input_error("namespace: a {} is no dict", value.type_name());
    for (const auto& [key, item] : value.as_dict().items) {
      result->members.emplace_back(text_argument(key, "namespace").bytes, item);
    }
  }
  for (const auto& [name, value] : arguments.named) {
    Value::list({value});  // refuses a namespace in a namespace
    result->members.emplace_back(name, value);
  }
  return Value(std::move(result));
}

Value make_dict(Interpreter&, const Arguments& arguments) {
  std::vector<std::pair<Value, Value>> items;
  for (const Value& value : arguments.positional) {
    if (!value.is_dict()) throw base::input_error("dict: a {} is no dict", value.type_name());
    items = value.as_dict().items;
  }
  for (const auto& [name, value] : arguments.named) items.emplace_back(Value::text(name), value);
  return Value::dict(std::move(items));
}

Value raise_exception(Interpreter&, const Arguments& arguments) {
  const auto args = bind_all(arguments, "raise_exception", {"message"}, 1);
  throw base::input_error("{}", to_text(*args[0]).bytes);
}

Value strftime_now(Interpreter& interpreter, const Arguments& arguments) {
  const auto args = bind_all(arguments, "strftime_now", {"format"}, 1);
  const std::string& format = text_argument(*args[0], "strftime_now").bytes;
  if (format.empty()) return Value::text("");
  const std::time_t now = interpreter.now();
  std::tm local{};
  localtime_r(&now, &local);
  char buffer[512];
  const std::size_t size = std::strftime(buffer, sizeof(buffer), format.c_str(), &local);
  if (size == 0)
    throw base::input_error("strftime_now: the format \"{}\" gives nothing, or too much", format);
  const std::string_view text(buffer, size);
  require_utf8(text, "strftime_now");
  return Value::text(text);
}

struct Function {
  std::string_view name;
  Value (*call)(Interpreter&, const Arguments&);
};
constexpr Function kFunctions[] = {
    {"range", range},
    {"namespace", make_namespace},
    {"dict", make_dict},
    {"raise_exception", raise_exception},
    {"strftime_now", strftime_now},
};

}  // namespace

std::vector<const Value*> bind(const Arguments& arguments, std::string_view function,
                               std::initializer_list<std::string_view> names) {
  std::vector<const Value*> result(names.size(), nullptr);
  if (arguments.positional.size() > names.size()) {
    throw base::input_error("{} takes at most {} arguments, not {}", function, names.size(),
                            arguments.positional.size());
  }
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) result[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto known = std::find(names.begin(), names.end(), name);
    if (known == names.end()) throw base::input_error("{} has no argument \"{}\"", function, name);
    const Value*& slot = result[static_cast<std::size_t>(known - names.begin())];
    if (slot != nullptr) throw base::input_error("{} is given \"{}\" twice", function, name);
    slot = &value;
  }
  return result;
}

std::vector<const Value*> bind_all(const Arguments& arguments, std::string_view function,
                                   std::initializer_list<std::string_view> names, std::size_t required) {
  auto result = bind(arguments, function, names);
  for (std::size_t i = 0; i < required; ++i) {
    if (result[i] == nullptr)
      throw base::input_error("{} needs the argument \"{}\"", function, *(names.begin() + i));
  }
  return result;
}

const Text& text_argument(const Value& value, std::string_view function) {
  if (value.is_undefined()) throw base::input_error("{}", value.get<Undefined>().name);
  if (!value.is_string()) throw base::input_error("{} expects a str, not a {}", function, value.type_name());
  return value.as_text();
}

std::int64_t int_argument(const Value& value, std::string_view function) {
  if (value.is_undefined()) throw base::input_error("{}", value.get<Undefined>().name);
  if (!value.is_integral())
    throw base::input_error("{} expects an int, not a {}", function, value.type_name());
  return value.as_int();
}

std::optional<Value> global_function(std::string_view name) {
  for (const Function& function : kFunctions) {
    if (function.name == name)
      return Value(std::make_shared<const Callable>(Callable{std::string(name), function.call}));
  }
  return std::nullopt;
}

}  // namespace tagalong::tokenizer::jinja
