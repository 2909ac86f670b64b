#include "tokenizer/jinja/expression_parser.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "tokenizer/jinja/builtins.h"

namespace tagalong::tokenizer::jinja {
namespace {

// A chain of operators is a tree as deep as the chain is long.
constexpr int kMaxTreeDepth = 400;

}  // namespace

ExprPtr ExpressionParser::make(Expr::Kind kind, int line, std::string name) {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->line = line;
  expr->name = std::move(name);
  return expr;
}

void ExpressionParser::add(ExprPtr& parent, ExprPtr child) {
  if (child) parent->depth = std::max(parent->depth, child->depth + 1);
  if (parent->depth > kMaxTreeDepth) fail("an expression is too long");
  parent->args.push_back(std::move(child));
}

ExprPtr ExpressionParser::binary(int line, std::string op, ExprPtr left, ExprPtr right) {
  auto expr = make(Expr::Kind::binary, line, std::move(op));
  add(expr, std::move(left));
  add(expr, std::move(right));
  return expr;
}

ExprPtr ExpressionParser::tuple(Condition condition) {
  const int line = peek().line;
  ExprPtr first = expression(condition);
  if (!at_symbol(",")) return first;
  auto result = make(Expr::Kind::tuple, line);
  add(result, std::move(first));
  while (skip_symbol(",")) {
    if (at(Token::Kind::block_end) || at(Token::Kind::output_end)) break;
    add(result, expression(condition));
  }
  return result;
}

ExprPtr ExpressionParser::expression(Condition condition) {
  const Level level(*this);
  ExprPtr value = logic_or();
  while (condition == Condition::allowed && at_name("if")) {
    auto choice = make(Expr::Kind::condition, take().line);
    add(choice, std::move(value));
    add(choice, logic_or());
    add(choice, skip_name("else") ? expression() : nullptr);
    value = std::move(choice);
  }
  return value;
}

ExprPtr ExpressionParser::logic_or() {
  ExprPtr left = logic_and();
  while (at_name("or")) {
    auto both = make(Expr::Kind::logic_or, take().line);
    add(both, std::move(left));
    add(both, logic_and());
    left = std::move(both);
  }
  return left;
}

ExprPtr ExpressionParser::logic_and() {
  ExprPtr left = logic_not();
  while (at_name("and")) {
    auto both = make(Expr::Kind::logic_and, take().line);
    add(both, std::move(left));
    add(both, logic_not());
    left = std::move(both);
  }
  return left;
}

ExprPtr ExpressionParser::logic_not() {
  if (!at_name("not")) return comparison();
  const Level level(*this);
  auto expr = make(Expr::Kind::unary, take().line, "not");
  add(expr, logic_not());
  return expr;
}

ExprPtr ExpressionParser::comparison() {
  static constexpr std::array<std::string_view, 6> kOperators = {"==", "!=", "<", "<=", ">", ">="};
  const int line = peek().line;
  ExprPtr first = sum();
  ExprPtr result;
  while (true) {
    std::string op;
    if (at(Token::Kind::symbol) &&
        std::find(kOperators.begin(), kOperators.end(), peek().text) != kOperators.end()) {
      op = take().text;
    } else if (skip_name("in")) {
      op = "in";
    } else if (at_name("not") && peek(1).kind == Token::Kind::name && peek(1).text == "in") {
      take();
      take();
      op = "not in";
    } else {
      return result ? std::move(result) : std::move(first);
    }
    if (!result) {
      result = make(Expr::Kind::comparison, line);
      add(result, std::move(first));
    }
    result->operators.push_back(op);
    add(result, sum());
  }
}

ExprPtr ExpressionParser::sum() {
  ExprPtr left = concatenation();
  while (at_symbol("+") || at_symbol("-")) {
    const Token op = take();
    left = binary(op.line, op.text, std::move(left), concatenation());
  }
  return left;
}

ExprPtr ExpressionParser::concatenation() {
  ExprPtr left = product();
  while (at_symbol("~")) {
    const Token op = take();
    left = binary(op.line, op.text, std::move(left), product());
  }
  return left;
}

ExprPtr ExpressionParser::product() {
  ExprPtr left = power();
  while (at_symbol("*") || at_symbol("/") || at_symbol("//") || at_symbol("%")) {
    const Token op = take();
    left = binary(op.line, op.text, std::move(left), power());
  }
  return left;
}

ExprPtr ExpressionParser::power() {
  ExprPtr left = unary();
  while (at_symbol("**")) {
    const Token op = take();
    left = binary(op.line, op.text, std::move(left), unary());
  }
  return left;
}

ExprPtr ExpressionParser::unary(Filters filters_allowed) {
  const Level level(*this);
  ExprPtr value;
  if (at_symbol("-") || at_symbol("+")) {
    const Token op = take();
    value = make(Expr::Kind::unary, op.line, op.text);
    add(value, unary(Filters::none));
  } else {
    value = primary();
  }
  value = postfix(std::move(value));
  return filters_allowed == Filters::allowed ? filters_and_tests(std::move(value)) : std::move(value);
}

ExprPtr ExpressionParser::primary() {
  const Level level(*this);
  const Token token = peek();
  if (token.kind == Token::Kind::name) return literal_name();
  if (token.kind == Token::Kind::string) {
    auto expr = make(Expr::Kind::constant, token.line);
    std::string text;
    while (at(Token::Kind::string)) text += take().text;  // neighbours are one string
    expr->constant = Value::text(text);
    return expr;
  }
  if (token.kind == Token::Kind::integer) {
    auto expr = make(Expr::Kind::constant, token.line);
    std::int64_t value = 0;
    const auto [end, error] =
        std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
    if (error != std::errc()) fail(fmt::format("the integer {} is too large", token.text));
    expr->constant = value;
    take();
    return expr;
  }
  if (token.kind == Token::Kind::real) {
    auto expr = make(Expr::Kind::constant, token.line);
    double value = 0;
    const auto [end, error] =
        std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
    if (error != std::errc()) fail(fmt::format("the number {} is out of range", token.text));
    expr->constant = value;
    take();
    return expr;
  }
  if (at_symbol("(")) return parenthesis();
  if (at_symbol("[")) return list_literal();
  if (at_symbol("{")) return dict_literal();
  unexpected("an expression");
}

ExprPtr ExpressionParser::literal_name() {
  const Token token = take();
  const std::string& name = token.text;
  for (const std::string_view reserved : {"if", "else", "elif", "in", "is", "and", "or", "not", "for"}) {
    if (name == reserved) fail(fmt::format("unexpected \"{}\"", name));
  }
  auto expr = make(Expr::Kind::constant, token.line);
  if (name == "true" || name == "True") {
    expr->constant = true;
  } else if (name == "false" || name == "False") {
    expr->constant = false;
  } else if (name == "none" || name == "None") {
    expr->constant = None{};
  } else {
    return make(Expr::Kind::name, token.line, name);
  }
  return expr;
}

ExprPtr ExpressionParser::parenthesis() {
  const int line = take().line;
  auto items = make(Expr::Kind::tuple, line);
  if (skip_symbol(")")) return items;
  ExprPtr first = expression();
  if (skip_symbol(")")) return first;
  add(items, std::move(first));
  while (skip_symbol(",")) {
    if (at_symbol(")")) break;
    add(items, expression());
  }
  expect_symbol(")");
  return items;
}

ExprPtr ExpressionParser::list_literal() {
  auto list = make(Expr::Kind::list, take().line);
  while (!skip_symbol("]")) {
    if (!list->args.empty()) {
      expect_symbol(",");
      if (skip_symbol("]")) break;
    }
    add(list, expression());
  }
  return list;
}

ExprPtr ExpressionParser::dict_literal() {
  auto dict = make(Expr::Kind::dict, take().line);
  while (!skip_symbol("}")) {
    if (!dict->args.empty()) {
      expect_symbol(",");
      if (skip_symbol("}")) break;
    }
    add(dict, expression());
    expect_symbol(":");
    add(dict, expression());
  }
  return dict;
}

ExprPtr ExpressionParser::postfix(ExprPtr value) {
  while (true) {
    if (at_symbol(".")) {
      const int line = take().line;
      if (at(Token::Kind::integer)) {
        auto item = make(Expr::Kind::subscript, line);
        add(item, std::move(value));
        add(item, primary());
        value = std::move(item);
        continue;
      }
      auto member = make(Expr::Kind::attribute, line, expect_name());
      add(member, std::move(value));
      value = std::move(member);
    } else if (at_symbol("[")) {
      value = subscript(std::move(value));
    } else if (at_symbol("(")) {
      auto call = make(Expr::Kind::call, peek().line);
      add(call, std::move(value));
      call_arguments(call);
      value = std::move(call);
    } else {
      return value;
    }
  }
}

ExprPtr ExpressionParser::subscript(ExprPtr value) {
  const int line = take().line;
  auto slice = make(Expr::Kind::slice, line);
  add(slice, std::move(value));
  bool has_colon = false;
  for (int part = 0; part < 3; ++part) {
    add(slice, at_symbol(":") || at_symbol("]") ? nullptr : expression());
    if (!skip_symbol(":")) break;
    has_colon = true;
  }
  if (at_symbol(",")) fail("a tuple as a subscript is not supported");
  expect_symbol("]");
  if (has_colon) {
    slice->args.resize(4);
    return slice;
  }
  if (slice->args.size() != 2 || !slice->args[1]) fail("an empty subscript");
  slice->kind = Expr::Kind::subscript;
  return slice;
}

void ExpressionParser::call_arguments(ExprPtr& call) {
  expect_symbol("(");
  bool first = true;
  while (!skip_symbol(")")) {
    if (!first) {
      expect_symbol(",");
      if (skip_symbol(")")) return;
    }
    first = false;
    if (at_symbol("*") || at_symbol("**")) fail("arguments from a list or a dict are not supported");
    if (at(Token::Kind::name) && peek(1).kind == Token::Kind::symbol && peek(1).text == "=") {
      std::string name = take().text;
      take();
      ExprPtr value = expression();
      call->depth = std::max(call->depth, value->depth + 1);
      call->named.emplace_back(std::move(name), std::move(value));
    } else {
      if (!call->named.empty()) fail("an argument without a name follows one with a name");
      add(call, expression());
    }
  }
}

ExprPtr ExpressionParser::filters_and_tests(ExprPtr value) {
  while (true) {
    if (at_symbol("|")) {
      value = filters(std::move(value));
    } else if (at_name("is")) {
      value = test(std::move(value));
    } else if (at_symbol("(")) {
      value = postfix(std::move(value));
    } else {
      return value;
    }
  }
}

ExprPtr ExpressionParser::filters(ExprPtr value) {
  while (skip_symbol("|")) {
    const int line = peek().line;
    std::string name = expect_name();
    if (!is_filter(name)) fail(fmt::format("there is no filter \"{}\"", name));
    auto filter = make(Expr::Kind::filter, line, std::move(name));
    add(filter, std::move(value));
    if (at_symbol("(")) call_arguments(filter);
    value = std::move(filter);
  }
  return value;
}

ExprPtr ExpressionParser::test(ExprPtr value) {
  const int line = take().line;
  const bool negated = skip_name("not");
  std::string name = expect_name();
  if (!is_test(name)) fail(fmt::format("there is no test \"{}\"", name));
  auto result = make(Expr::Kind::test, line, std::move(name));
  add(result, std::move(value));
  if (at_symbol("(")) {
    call_arguments(result);
  } else {
    const bool literal = at(Token::Kind::string) || at(Token::Kind::integer) || at(Token::Kind::real) ||
                         at_symbol("[") || at_symbol("{");
    const bool name_follows = at(Token::Kind::name) && !at_name("else") && !at_name("or") && !at_name("and");
    if (name_follows && at_name("is")) fail("tests cannot be chained with \"is\"");
    if (literal || (name_follows && !at_name("if") && !at_name("not") && !at_name("in"))) {
      add(result, postfix(primary()));
    }
  }
  if (!negated) return result;
  auto inverted = make(Expr::Kind::unary, line, "not");
  add(inverted, std::move(result));
  return inverted;
}

}  // namespace tagalong::tokenizer::jinja
