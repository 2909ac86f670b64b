// Statements.
#include "tokenizer/jinja/interpreter.h"

#include <algorithm>

#include "base/error.h"
#include "tokenizer/jinja/builtins.h"

namespace tagalong::tokenizer::jinja {
namespace {

// Restores a variable at the end of the block, also when an error passes.
template <typename T>
class Restore {
 public:
  Restore(T& variable, T value) : variable_(variable), old_(std::exchange(variable, std::move(value))) {}
  ~Restore() { variable_ = std::move(old_); }
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;

 private:
  T& variable_;
  T old_;
};

}  // namespace

Text Interpreter::render(const Block& block, std::vector<std::pair<std::string, Value>> context) {
  Text out;
  auto variables = std::make_shared<Scope>(Scope{std::move(context), nullptr});
  scope_ = std::make_shared<Scope>(Scope{{}, std::move(variables)});
  out_ = &out;
  try {
    execute(block);
  } catch (const base::InputError& error) {
    throw base::input_error("chat template, line {}: {}", line_, error.what());
  }
  scope_.reset();
  return out;
}

void Interpreter::charge(std::size_t units) {
  steps_ += units;
  if (steps_ > limits_.steps) throw base::input_error("the template needs more than {} steps", limits_.steps);
}

void Interpreter::charge_text(std::size_t bytes) {
  if (bytes > limits_.text_bytes) throw base::input_error("a text of more than {} bytes", limits_.text_bytes);
  charge(1 + bytes / 16);
}

std::vector<Value> Interpreter::items(const Value& value) {
  if (is_iterable(value)) charge(static_cast<std::size_t>(length_of(value)) * (value.is_string() ? 16 : 1));
  return iterate(value);
}

void Interpreter::emit(const Text& text) {
  charge_text(out_->bytes.size() + text.bytes.size() > limits_.text_bytes ? limits_.text_bytes + 1
                                                                          : text.bytes.size());
  out_->append(text);
}

Interpreter::Flow Interpreter::execute(const Block& block) {
  for (const Stmt& stmt : block) {
    const Flow flow = execute(stmt);
    if (flow != Flow::normal) return flow;
  }
  return Flow::normal;
}

Interpreter::Flow Interpreter::execute(const Stmt& stmt) {
  charge(1);
  line_ = stmt.line;
  switch (stmt.kind) {
    case Stmt::Kind::text:
      emit(stmt.text);
      return Flow::normal;
    case Stmt::Kind::output: {
      const Value value = evaluate(*stmt.exprs[0]);
      charge(weight_of(value));
      emit(to_text(value));
      return Flow::normal;
    }
    case Stmt::Kind::branch:
      for (std::size_t i = 0; i < stmt.exprs.size(); ++i) {
        if (evaluate(*stmt.exprs[i]).truthy()) return execute(stmt.bodies[i]);
      }
      return stmt.bodies.size() > stmt.exprs.size() ? execute(stmt.bodies.back()) : Flow::normal;
    case Stmt::Kind::loop:
      return loop(stmt);
    case Stmt::Kind::assign:
      assign(stmt.names, evaluate(*stmt.exprs[0]));
      return Flow::normal;
    case Stmt::Kind::assign_member:
      set_member(stmt);
      return Flow::normal;
    case Stmt::Kind::assign_block:
      set(stmt.names[0], filtered(stmt.exprs[0].get(), capture(stmt.bodies[0])));
      return Flow::normal;
    case Stmt::Kind::macro:
      set(stmt.names[0], macro(stmt, stmt.names[0]));
      return Flow::normal;
    case Stmt::Kind::call: {
      const Value caller = macro(stmt, "caller");
      emit(to_text(evaluate_call(*stmt.exprs[0], &caller)));
      return Flow::normal;
    }
    case Stmt::Kind::filter:
      emit(to_text(filtered(stmt.exprs[0].get(), capture(stmt.bodies[0]))));
      return Flow::normal;
    case Stmt::Kind::with: {
      auto inner = std::make_shared<Scope>(Scope{{}, scope_});
      for (std::size_t i = 0; i < stmt.names.size(); ++i) {
        inner->variables.emplace_back(stmt.names[i], evaluate(*stmt.exprs[i]));
      }
      const Restore scope(scope_, std::move(inner));
      return execute(stmt.bodies[0]);
    }
    case Stmt::Kind::scope: {
      const Restore scope(scope_, std::make_shared<Scope>(Scope{{}, scope_}));
      return execute(stmt.bodies[0]);
    }
    case Stmt::Kind::break_loop:
      return Flow::break_loop;
    case Stmt::Kind::continue_loop:
      return Flow::continue_loop;
  }
  return Flow::normal;
}

Interpreter::Flow Interpreter::loop(const Stmt& stmt) {
  const Value source = evaluate(*stmt.exprs[0]);
  auto state = std::make_shared<Loop>();
  for (Value& item : items(source)) {
    charge(1);
    if (stmt.exprs[1]) {
      const Restore scope(scope_, std::make_shared<Scope>(Scope{{}, scope_}));
      assign(stmt.names, item);
      if (!evaluate(*stmt.exprs[1]).truthy()) continue;
    }
    state->items.push_back(std::move(item));
  }
  if (state->items.empty()) {
    return stmt.bodies.size() > 1 ? execute(stmt.bodies[1]) : Flow::normal;
  }
  for (; state->index < state->items.size(); ++state->index) {
    // Each round has a scope of its own: what is set in it does not outlive it.
    const Restore scope(scope_, std::make_shared<Scope>(Scope{{}, scope_}));
    set("loop", Value(state));
    assign(stmt.names, state->items[state->index]);
    if (execute(stmt.bodies[0]) == Flow::break_loop) break;
  }
  return Flow::normal;
}

void Interpreter::assign(const std::vector<std::string>& names, const Value& value) {
  if (names.size() == 1) return set(names[0], value);
  const std::vector<Value> parts = items(value);
  if (parts.size() != names.size()) {
    throw base::input_error("{} values for {} names", parts.size(), names.size());
  }
  for (std::size_t i = 0; i < names.size(); ++i) set(names[i], parts[i]);
}

void Interpreter::set(std::string_view name, Value value) {
  for (auto& [known, old] : scope_->variables) {
    if (known == name) {
      old = std::move(value);
      return;
    }
  }
  scope_->variables.emplace_back(name, std::move(value));
}

void Interpreter::set_member(const Stmt& stmt) {
  Value value = evaluate(*stmt.exprs[0]);
  Expr name;
  name.kind = Expr::Kind::name;
  name.line = stmt.line;
  name.name = stmt.names[0];
  const Value target = evaluate_name(name);
  if (!target.is<std::shared_ptr<Namespace>>()) {
    throw base::input_error("\"{}\" is no namespace, its members cannot be set", stmt.names[0]);
  }
  // A namespace in itself would never be freed.
  Value::list({value});
  auto& members = target.get<std::shared_ptr<Namespace>>()->members;
  for (auto& [known, old] : members) {
    if (known == stmt.names[1]) {
      old = std::move(value);
      return;
    }
  }
  members.emplace_back(stmt.names[1], std::move(value));
}

Text Interpreter::capture(const Block& block) {
  Text text;
  const Restore out(out_, &text);
  const Restore scope(scope_, std::make_shared<Scope>(Scope{{}, scope_}));
  execute(block);
  return text;
}

Value Interpreter::macro(const Stmt& stmt, std::string name) {
  // Weak: the scope holds the macro.
  std::weak_ptr<Scope> home = scope_;
  Callable callable;
  callable.name = std::move(name);
  callable.call = [&stmt, home, name = callable.name](Interpreter& interpreter, const Arguments& arguments) {
    auto scope = home.lock();
    if (!scope) throw base::input_error("the macro \"{}\" is called after the block that defines it", name);
    const Restore restore(interpreter.scope_, std::make_shared<Scope>(Scope{{}, std::move(scope)}));
    return interpreter.call_macro(stmt, name, arguments);
  };
  return Value(std::make_shared<const Callable>(std::move(callable)));
}

Value Interpreter::call_macro(const Stmt& stmt, std::string_view name, const Arguments& given) {
  if (call_depth_ >= limits_.call_depth)
    throw base::input_error("macros call each other deeper than {}", call_depth_);
  const Restore depth(call_depth_, call_depth_ + 1);
  if (given.positional.size() > stmt.parameters.size()) {
    throw base::input_error("the macro \"{}\" takes {} arguments, not {}", name, stmt.parameters.size(),
                            given.positional.size());
  }
  for (const auto& [key, value] : given.named) {
    const bool known =
        std::any_of(stmt.parameters.begin(), stmt.parameters.end(),
                    [&key = key](const Parameter& parameter) { return parameter.name == key; });
    if (!known && key != "caller")
      throw base::input_error("the macro \"{}\" has no parameter \"{}\"", name, key);
    set(key, value);
  }
  for (std::size_t i = 0; i < stmt.parameters.size(); ++i) {
    const Parameter& parameter = stmt.parameters[i];
    const bool named = std::any_of(given.named.begin(), given.named.end(),
                                   [&](const auto& argument) { return argument.first == parameter.name; });
    if (i < given.positional.size()) {
      if (named) throw base::input_error("the macro \"{}\" is given \"{}\" twice", name, parameter.name);
      set(parameter.name, given.positional[i]);
    } else if (!named) {
      set(parameter.name, parameter.fallback ? evaluate(*parameter.fallback)
                                             : Value::undefined(fmt::format("parameter '{}' was not provided",
                                                                            parameter.name)));
    }
  }
  Text text;
  const Restore out(out_, &text);
  execute(stmt.bodies[0]);
  return Value::text(std::move(text));
}

Value Interpreter::filtered(const Expr* filters, Text text) {
  const Value value = Value::text(std::move(text));
  if (filters == nullptr) return value;
  const Restore block_text(block_text_, &value);
  return evaluate(*filters);
}

}  // namespace tagalong::tokenizer::jinja
