// Renders a template, counting its work: a template is a program from a stranger.
//
// One rendering, one thread. Never touches files, the environment or the network; the clock is a parameter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/jinja/ast.h"
#include "tokenizer/jinja/value.h"

namespace tagalong::tokenizer::jinja {

struct Limits {
  std::size_t steps = 10'000'000;      // one for each node visited and each 16 bytes or values moved
  std::size_t text_bytes = 16u << 20;  // of the output, and of any string on the way
  int call_depth = 60;                 // of macros in macros
};

class Interpreter {
 public:
  Interpreter(const Limits& limits, std::time_t now) : limits_(limits), now_(now) {}

  // `context` is the template's variables. Throws InputError naming the line.
  Text render(const Block& block, std::vector<std::pair<std::string, Value>> context);

  // For builtins.
  void charge(std::size_t units);
  void charge_text(std::size_t bytes);
  // iterate(value), charged before it takes memory: a character that becomes a value is many times its size.
  std::vector<Value> items(const Value& value);
  Value call(const Value& callable, const Arguments& arguments);
  Value attribute(const Value& object, std::string_view name);
  Value item(const Value& object, const Value& key);
  std::time_t now() const { return now_; }

 private:
  struct Scope {
    std::vector<std::pair<std::string, Value>> variables;
    std::shared_ptr<Scope> parent;
  };
  enum class Flow { normal, break_loop, continue_loop };

  Flow execute(const Block& block);
  Flow execute(const Stmt& stmt);
  Flow loop(const Stmt& stmt);
  void emit(const Text& text);
  void assign(const std::vector<std::string>& names, const Value& value);
  void set(std::string_view name, Value value);
  void set_member(const Stmt& stmt);
  // The output of a block, in a scope of its own.
  Text capture(const Block& block);
  Value macro(const Stmt& stmt, std::string name);
  Value call_macro(const Stmt& stmt, std::string_view name, const Arguments& arguments);

  Value evaluate(const Expr& expr);
  Value evaluate_name(const Expr& expr);
  Value evaluate_call(const Expr& expr, const Value* caller);
  Value evaluate_unary(const Expr& expr);
  Value evaluate_comparison(const Expr& expr);
  Value evaluate_slice(const Expr& expr);
  Value binary(std::string_view op, const Value& a, const Value& b);
  Value arithmetic(std::string_view op, const Value& a, const Value& b);
  Value add(const Value& a, const Value& b);
  Value repeat(const Value& value, std::int64_t times);
  Arguments arguments(const Expr& expr);
  // The filters of a set or filter block, over the block's text.
  Value filtered(const Expr* filters, Text text);

  const Limits& limits_;
  std::time_t now_;
  std::size_t steps_ = 0;
  int line_ = 0;
  int call_depth_ = 0;
  Text* out_ = nullptr;
  std::shared_ptr<Scope> scope_;
  const Value* block_text_ = nullptr;
};

}  // namespace tagalong::tokenizer::jinja
