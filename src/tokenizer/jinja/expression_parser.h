// Expressions, with the precedence of Jinja2. One thread.
#pragma once

#include <string>
#include <vector>

#include "tokenizer/jinja/parser_base.h"

namespace tagalong::tokenizer::jinja {

class ExpressionParser : public ParserBase {
 public:
  using ParserBase::ParserBase;

 protected:
  enum class Condition { allowed, none };
  // An expression; `a if b` is left alone with Condition::none, as in `for x in xs if x`.
  ExprPtr expression(Condition condition = Condition::allowed);
  // One expression, or several with commas: a tuple.
  ExprPtr tuple(Condition condition = Condition::allowed);
  // `| filter...` applied to `value`, which may be null: the text of a block.
  ExprPtr filters(ExprPtr value);
  ExprPtr postfix(ExprPtr value);
  ExprPtr primary();

 private:
  ExprPtr make(Expr::Kind kind, int line, std::string name = {});
  void add(ExprPtr& parent, ExprPtr child);
  ExprPtr binary(int line, std::string op, ExprPtr left, ExprPtr right);

  ExprPtr logic_or();
  ExprPtr logic_and();
  ExprPtr logic_not();
  ExprPtr comparison();
  ExprPtr sum();
  ExprPtr concatenation();
  ExprPtr product();
  ExprPtr power();
  enum class Filters { allowed, none };
  ExprPtr unary(Filters filters_allowed = Filters::allowed);
  ExprPtr filters_and_tests(ExprPtr value);
  ExprPtr test(ExprPtr value);
  ExprPtr subscript(ExprPtr value);
  void call_arguments(ExprPtr& call);
  ExprPtr literal_name();
  ExprPtr list_literal();
  ExprPtr dict_literal();
  ExprPtr parenthesis();
};

}  // namespace tagalong::tokenizer::jinja
