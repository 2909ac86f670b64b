// Expressions.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "tokenizer/jinja/builtins.h"
#include "tokenizer/jinja/interpreter.h"

namespace tagalong::tokenizer::jinja {
namespace {

// Operating on what is not there is an error that says what is not there.
void require_defined(const Value& value) {
  if (value.is_undefined()) throw base::input_error("{}", value.get<Undefined>().name);
}

[[noreturn]] void unsupported(std::string_view op, const Value& a, const Value& b) {
  throw base::input_error("\"{}\" does not work on a {} and a {}", op, a.type_name(), b.type_name());
}

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  if (b == 0) throw base::input_error("division by zero");
  if (b == -1) {
    if (a == INT64_MIN) throw base::input_error("an integer is too large");
    return -a;
  }
  return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

// A reference: the result may be computed after the argument list is read.
Value checked(bool overflow, const std::int64_t& result) {
  if (overflow) throw base::input_error("an integer is too large");
  return result;
}

Value power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) return std::pow(static_cast<double>(base), static_cast<double>(exponent));
  std::int64_t result = 1;
  for (std::int64_t i = 0; i < exponent; ++i) {
    if (base == 0 || base == 1) return exponent == 0 ? std::int64_t{1} : base;
    if (base == -1) return exponent % 2 == 0 ? std::int64_t{1} : std::int64_t{-1};
    if (__builtin_mul_overflow(result, base, &result)) throw base::input_error("an integer is too large");
  }
  return result;
}

std::string_view python_object(const Value& value) {
  if (value.is_none()) return "None";
  return value.type_name();
}

}  // namespace

Value Interpreter::evaluate(const Expr& expr) {
  charge(1);
  line_ = expr.line;
  switch (expr.kind) {
    case Expr::Kind::constant:
      return expr.constant;
    case Expr::Kind::name:
      return evaluate_name(expr);
    case Expr::Kind::list:
    case Expr::Kind::tuple: {
      std::vector<Value> items;
      for (const ExprPtr& arg : expr.args) items.push_back(evaluate(*arg));
      return Value::list(std::move(items), expr.kind == Expr::Kind::tuple);
    }
    case Expr::Kind::dict: {
      std::vector<std::pair<Value, Value>> items;
      for (std::size_t i = 0; i < expr.args.size(); i += 2) {
        Value key = evaluate(*expr.args[i]);
        if (!key.is_string() && !key.is_number() && !key.is_none()) {
          throw base::input_error("a {} cannot be a key", key.type_name());
        }
        Value value = evaluate(*expr.args[i + 1]);
        const auto known = std::find_if(items.begin(), items.end(),
                                        [&](const auto& item) { return equal(item.first, key); });
        if (known != items.end()) {
          known->second = std::move(value);
        } else {
          items.emplace_back(std::move(key), std::move(value));
        }
      }
      return Value::dict(std::move(items));
    }
    case Expr::Kind::attribute:
      return attribute(evaluate(*expr.args[0]), expr.name);
    case Expr::Kind::subscript: {
      const Value object = evaluate(*expr.args[0]);
      return item(object, evaluate(*expr.args[1]));
    }
    case Expr::Kind::slice:
      return evaluate_slice(expr);
    case Expr::Kind::call:
      return evaluate_call(expr, nullptr);
    case Expr::Kind::filter: {
      const Value value = expr.args[0] ? evaluate(*expr.args[0]) : *block_text_;
      return apply_filter(*this, expr.name, value, arguments(expr));
    }
    case Expr::Kind::test: {
      const Value value = evaluate(*expr.args[0]);
      const Arguments given = arguments(expr);
      charge(weight_of(value));
      for (const Value& argument : given.positional) charge(weight_of(argument));
      return apply_test(expr.name, value, given);
    }
    case Expr::Kind::unary:
      return evaluate_unary(expr);
    case Expr::Kind::binary: {
      const Value left = evaluate(*expr.args[0]);
      const Value right = evaluate(*expr.args[1]);
      line_ = expr.line;
      return binary(expr.name, left, right);
    }
    case Expr::Kind::logic_and: {
      Value left = evaluate(*expr.args[0]);
      return left.truthy() ? evaluate(*expr.args[1]) : left;
    }
    case Expr::Kind::logic_or: {
      Value left = evaluate(*expr.args[0]);
      return left.truthy() ? left : evaluate(*expr.args[1]);
    }
    case Expr::Kind::comparison:
      return evaluate_comparison(expr);
    case Expr::Kind::condition:
      if (evaluate(*expr.args[1]).truthy()) return evaluate(*expr.args[0]);
      if (expr.args[2]) return evaluate(*expr.args[2]);
      return Value::undefined("the inline if-expression evaluated to false and no else section was defined");
  }
  return Value();
}

Value Interpreter::evaluate_name(const Expr& expr) {
  for (const Scope* scope = scope_.get(); scope != nullptr; scope = scope->parent.get()) {
    for (const auto& [name, value] : scope->variables) {
      if (name == expr.name) return value;
    }
  }
  if (auto function = global_function(expr.name)) return *function;
  return Value::undefined(fmt::format("'{}' is undefined", expr.name));
}

Arguments Interpreter::arguments(const Expr& expr) {
  Arguments result;
  for (std::size_t i = 1; i < expr.args.size(); ++i) result.positional.push_back(evaluate(*expr.args[i]));
  for (const auto& [name, value] : expr.named) result.named.emplace_back(name, evaluate(*value));
  return result;
}

Value Interpreter::evaluate_call(const Expr& expr, const Value* caller) {
  const Value callee = evaluate(*expr.args[0]);
  Arguments given = arguments(expr);
  if (caller != nullptr) given.named.emplace_back("caller", *caller);
  line_ = expr.line;
  return call(callee, given);
}

Value Interpreter::call(const Value& callable, const Arguments& given) {
  require_defined(callable);
  if (!callable.is<std::shared_ptr<const Callable>>()) {
    throw base::input_error("a {} cannot be called", callable.type_name());
  }
  return callable.get<std::shared_ptr<const Callable>>()->call(*this, given);
}

Value Interpreter::attribute(const Value& object, std::string_view name) {
  require_defined(object);
  if (name.starts_with('_')) return Value::undefined(fmt::format("access to attribute '{}' is unsafe", name));
  if (object.is<std::shared_ptr<Namespace>>()) {
    for (const auto& [known, value] : object.get<std::shared_ptr<Namespace>>()->members) {
      if (known == name) return value;
    }
  } else if (auto method = builtin_member(object, name)) {
    return *method;
  } else if (object.is_dict()) {
    if (const Value* value = object.as_dict().find(name)) return *value;
  }
  return Value::undefined(fmt::format("'{}' has no attribute '{}'", python_object(object), name));
}

Value Interpreter::item(const Value& object, const Value& key) {
  require_defined(object);
  if (object.is_dict()) {
    if (const Value* value = object.as_dict().find(key)) return *value;
  } else if (key.is_integral() && (object.is_list() || object.is_string())) {
    const std::int64_t length = length_of(object);
    charge(1 + static_cast<std::size_t>(length) / 16);
    const std::int64_t index = key.as_int() < 0 ? key.as_int() + length : key.as_int();
    if (index >= 0 && index < length) {
      if (object.is_list()) return object.as_list().items[static_cast<std::size_t>(index)];
      const auto starts = code_point_starts(object.as_text().bytes);
      return Value::text(object.as_text().sub(starts[static_cast<std::size_t>(index)],
                                              starts[static_cast<std::size_t>(index) + 1]));
    }
  }
  if (key.is_string()) return attribute(object, key.as_text().bytes);
  return Value::undefined(fmt::format("'{}' has no element {}", python_object(object), to_text(key).bytes));
}

Value Interpreter::evaluate_slice(const Expr& expr) {
  const Value object = evaluate(*expr.args[0]);
  std::int64_t part[3];
  bool given[3];
  for (std::size_t i = 0; i < 3; ++i) {
    const Value value = expr.args[i + 1] ? evaluate(*expr.args[i + 1]) : Value(None{});
    given[i] = !value.is_none();
    part[i] = given[i] ? int_argument(value, "a slice") : 0;
  }
  require_defined(object);
  if (!object.is_list() && !object.is_string())
    throw base::input_error("a {} cannot be sliced", object.type_name());
  const std::int64_t step = given[2] ? part[2] : 1;
  if (step == 0 || step == INT64_MIN) throw base::input_error("a slice with step {}", step);
  const std::int64_t length = length_of(object);
  charge_text(static_cast<std::size_t>(length));
  // Python's slice.indices().
  const std::int64_t low = step < 0 ? -1 : 0;
  const std::int64_t high = step < 0 ? length - 1 : length;
  const auto clamp = [&](std::int64_t i) { return std::clamp(i < 0 ? i + length : i, low, high); };
  const std::int64_t start = given[0] ? clamp(part[0]) : (step < 0 ? high : low);
  const std::int64_t stop = given[1] ? clamp(part[1]) : (step < 0 ? low : high);
  const auto each = [&](auto&& take) {
    for (std::int64_t i = start; step < 0 ? i > stop : i < stop;) {
      take(static_cast<std::size_t>(i));
      if (__builtin_add_overflow(i, step, &i)) break;
    }
  };
  if (object.is_list()) {
    std::vector<Value> items;
    each([&](std::size_t i) { items.push_back(object.as_list().items[i]); });
    return Value::list(std::move(items), object.as_list().tuple);
  }
  const Text& text = object.as_text();
  const auto starts = code_point_starts(text.bytes);
  if (step == 1) {
    return Value::text(start < stop ? text.sub(starts[static_cast<std::size_t>(start)],
                                               starts[static_cast<std::size_t>(stop)])
                                    : Text());
  }
  Text result;
  each([&](std::size_t i) { result.append(text, starts[i], starts[i + 1]); });
  return Value::text(std::move(result));
}

Value Interpreter::evaluate_unary(const Expr& expr) {
  const Value value = evaluate(*expr.args[0]);
  if (expr.name == "not") return !value.truthy();
  require_defined(value);
  if (!value.is_number())
    throw base::input_error("\"{}\" does not work on a {}", expr.name, value.type_name());
  if (value.is<double>()) return expr.name == "-" ? -value.as_double() : value.as_double();
  if (expr.name == "+") return value.as_int();
  return checked(value.as_int() == INT64_MIN, value.as_int() == INT64_MIN ? 0 : -value.as_int());
}

Value Interpreter::evaluate_comparison(const Expr& expr) {
  Value left = evaluate(*expr.args[0]);
  for (std::size_t i = 0; i < expr.operators.size(); ++i) {
    Value right = evaluate(*expr.args[i + 1]);
    const std::string& op = expr.operators[i];
    bool holds = false;
    charge(weight_of(left) + weight_of(right));
    if (op == "==" || op == "!=") {
      holds = equal(left, right) == (op == "==");
    } else if (op == "in" || op == "not in") {
      holds = contains(right, left) == (op == "in");
    } else {
      require_defined(left);
      require_defined(right);
      const int order = compare(left, right);
      holds = op == "<" ? order < 0 : op == "<=" ? order <= 0 : op == ">" ? order > 0 : order >= 0;
    }
    if (!holds) return false;
    left = std::move(right);
  }
  return true;
}

Value Interpreter::binary(std::string_view op, const Value& a, const Value& b) {
  if (op == "~") {
    charge(weight_of(a) + weight_of(b));
    Text text = to_text(a);
    const Text tail = to_text(b);
    charge_text(text.bytes.size() + tail.bytes.size());
    text.append(tail);
    return Value::text(std::move(text));
  }
  require_defined(a);
  require_defined(b);
  if (a.is_number() && b.is_number()) return arithmetic(op, a, b);
  if (op == "+") return add(a, b);
  if (op == "*" && b.is_integral()) return repeat(a, b.as_int());
  if (op == "*" && a.is_integral()) return repeat(b, a.as_int());
  unsupported(op, a, b);
}

Value Interpreter::add(const Value& a, const Value& b) {
  if (a.is_string() && b.is_string()) {
    charge_text(a.as_text().bytes.size() + b.as_text().bytes.size());
    Text text = a.as_text();
    text.append(b.as_text());
    return Value::text(std::move(text));
  }
  if (a.is_list() && b.is_list() && a.as_list().tuple == b.as_list().tuple) {
    std::vector<Value> items = a.as_list().items;
    items.insert(items.end(), b.as_list().items.begin(), b.as_list().items.end());
    charge_text(16 * items.size());
    return Value::list(std::move(items), a.as_list().tuple);
  }
  unsupported("+", a, b);
}

Value Interpreter::repeat(const Value& value, std::int64_t times) {
  if (!value.is_string() && !value.is_list()) unsupported("*", value, Value(times));
  const std::size_t count = times < 0 ? 0 : static_cast<std::size_t>(times);
  const std::size_t unit =
      value.is_string() ? value.as_text().bytes.size() : 16 * value.as_list().items.size();
  charge_text(unit > 0 && count > limits_.text_bytes / unit ? limits_.text_bytes + 1 : unit * count);
  if (unit == 0 || count == 0)
    return value.is_string() ? Value::text("") : Value::list({}, value.as_list().tuple);
  if (value.is_string()) {
    Text text;
    for (std::size_t i = 0; i < count; ++i) text.append(value.as_text());
    return Value::text(std::move(text));
  }
  std::vector<Value> items;
  for (std::size_t i = 0; i < count; ++i) {
    items.insert(items.end(), value.as_list().items.begin(), value.as_list().items.end());
  }
  return Value::list(std::move(items), value.as_list().tuple);
}

Value Interpreter::arithmetic(std::string_view op, const Value& a, const Value& b) {
  const bool integral = a.is_integral() && b.is_integral();
  const double x = a.as_double();
  const double y = b.as_double();
  if (op == "/") {
    if (y == 0) throw base::input_error("division by zero");
    return x / y;
  }
  if (integral) {
    const std::int64_t i = a.as_int();
    const std::int64_t j = b.as_int();
    std::int64_t result = 0;
    if (op == "+") return checked(__builtin_add_overflow(i, j, &result), result);
    if (op == "-") return checked(__builtin_sub_overflow(i, j, &result), result);
    if (op == "*") return checked(__builtin_mul_overflow(i, j, &result), result);
    if (op == "//") return floor_divide(i, j);
    if (op == "%") return j == -1 ? Value(std::int64_t{0}) : Value(i - floor_divide(i, j) * j);
    if (op == "**") return power(i, j);
    unsupported(op, a, b);
  }
  if (op == "+") return x + y;
  if (op == "-") return x - y;
  if (op == "*") return x * y;
  if (op == "**") return std::pow(x, y);
  if (y == 0) throw base::input_error("division by zero");
  if (op == "//") return std::floor(x / y);
  const double rest = std::fmod(x, y);
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

}  // namespace tagalong::tokenizer::jinja
