#include "tokenizer/jinja/parser.h"

#include <algorithm>
#include <utility>

#include "tokenizer/jinja/builtins.h"
#include "tokenizer/jinja/expression_parser.h"

namespace tagalong::tokenizer::jinja {
namespace {

class StatementParser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  Block run() {
    Block block = body({});
    if (!at(Token::Kind::end)) unexpected("the end");
    return block;
  }

 private:
  using Ends = std::initializer_list<std::string_view>;

  // Statements up to a tag whose name is one of `ends`; the tag's name is what comes next.
  Block body(Ends ends) {
    const Level level(*this);
    Block block;
    while (true) {
      if (at(Token::Kind::end)) {
        if (ends.size() > 0) unexpected(fmt::format("\"{}\"", *(ends.end() - 1)));
        return block;
      }
      const Token token = take();
      if (token.kind == Token::Kind::text) {
        Stmt& stmt = block.emplace_back();
        stmt.kind = Stmt::Kind::text;
        stmt.line = token.line;
        stmt.text = Text(token.text);
      } else if (token.kind == Token::Kind::output_begin) {
        Stmt& stmt = block.emplace_back();
        stmt.kind = Stmt::Kind::output;
        stmt.line = token.line;
        stmt.exprs.push_back(tuple());
        expect(Token::Kind::output_end, "\"}}\"");
      } else {
        if (std::any_of(ends.begin(), ends.end(), [&](std::string_view end) { return at_name(end); }))
          return block;
        statement(block, token.line);
      }
    }
  }

  // A macro may stand in a loop, but cannot leave it.
  Block body_outside_loops(Ends ends) {
    const int loops = std::exchange(loops_, 0);
    Block block = body(ends);
    loops_ = loops;
    return block;
  }

  void end_block() { expect(Token::Kind::block_end, "\"%}\""); }
  void end_tag(std::string_view name) {
    if (!skip_name(name)) unexpected(fmt::format("\"{}\"", name));
    end_block();
  }

  void statement(Block& block, int line) {
    const std::string name = expect_name();
    Stmt stmt;
    stmt.line = line;
    if (name == "if") {
      branch(stmt);
    } else if (name == "for") {
      loop(stmt);
    } else if (name == "set") {
      assign(stmt);
    } else if (name == "macro") {
      stmt.kind = Stmt::Kind::macro;
      stmt.names.push_back(expect_name());
      parameters(stmt);
      end_block();
      stmt.bodies.push_back(body_outside_loops({"endmacro"}));
      take();
      if (at(Token::Kind::name)) take();  // endmacro may repeat the name
      end_block();
    } else if (name == "call") {
      stmt.kind = Stmt::Kind::call;
      if (at_symbol("(")) parameters(stmt);
      stmt.exprs.push_back(postfix(primary()));
      if (stmt.exprs[0]->kind != Expr::Kind::call) fail("\"call\" needs a call");
      end_block();
      stmt.bodies.push_back(body_outside_loops({"endcall"}));
      end_tag("endcall");
    } else if (name == "filter") {
      stmt.kind = Stmt::Kind::filter;
      stmt.exprs.push_back(first_filter());
      end_block();
      stmt.bodies.push_back(body({"endfilter"}));
      end_tag("endfilter");
    } else if (name == "with") {
      with(stmt);
    } else if (name == "generation") {
      stmt.kind = Stmt::Kind::scope;
      end_block();
      stmt.bodies.push_back(body({"endgeneration"}));
      end_tag("endgeneration");
    } else if (name == "break" || name == "continue") {
      if (loops_ == 0) fail(fmt::format("\"{}\" outside a loop", name));
      stmt.kind = name == "break" ? Stmt::Kind::break_loop : Stmt::Kind::continue_loop;
      end_block();
    } else {
      for (const std::string_view file : {"include", "import", "from", "extends", "block"}) {
        if (name == file) fail(fmt::format("\"{}\" asks for another template, and there is none", name));
      }
      fail(fmt::format("unknown tag \"{}\"", name));
    }
    block.push_back(std::move(stmt));
  }

  // A filter whose value is the text of a block: `{% filter upper %}`.
  ExprPtr first_filter() {
    // The name stands where a filter would follow "|": read it as one.
    const int line = peek().line;
    auto filter = std::make_unique<Expr>();
    filter->kind = Expr::Kind::filter;
    filter->line = line;
    ExprPtr call = postfix(primary());
    const bool called = call->kind == Expr::Kind::call;
    const Expr& name = called ? *call->args[0] : *call;
    if (name.kind != Expr::Kind::name || !is_filter(name.name)) fail("expected a filter");
    filter->name = name.name;
    filter->args.push_back(nullptr);
    if (called) {
      for (std::size_t i = 1; i < call->args.size(); ++i) filter->args.push_back(std::move(call->args[i]));
      filter->named = std::move(call->named);
    }
    filter->depth = call->depth + 1;
    return filters(std::move(filter));
  }

  void branch(Stmt& stmt) {
    stmt.kind = Stmt::Kind::branch;
    stmt.exprs.push_back(tuple(Condition::none));
    end_block();
    while (true) {
      stmt.bodies.push_back(body({"elif", "else", "endif"}));
      const std::string name = take().text;
      if (name == "elif") {
        stmt.exprs.push_back(tuple(Condition::none));
        end_block();
        continue;
      }
      end_block();
      if (name == "endif") return;
      stmt.bodies.push_back(body({"endif"}));
      end_tag("endif");
      return;
    }
  }

  // A name, or names with commas, also in parentheses.
  std::vector<std::string> targets() {
    std::vector<std::string> names;
    const bool parenthesis = skip_symbol("(");
    do {
      names.push_back(expect_name());
    } while (skip_symbol(",") && at(Token::Kind::name));
    if (parenthesis) expect_symbol(")");
    return names;
  }

  void loop(Stmt& stmt) {
    stmt.kind = Stmt::Kind::loop;
    stmt.names = targets();
    if (!skip_name("in")) unexpected("\"in\"");
    stmt.exprs.push_back(tuple(Condition::none));
    stmt.exprs.push_back(skip_name("if") ? expression() : nullptr);
    if (at_name("recursive")) fail("a recursive loop is not supported");
    end_block();
    ++loops_;
    stmt.bodies.push_back(body({"else", "endfor"}));
    --loops_;
    if (take().text == "else") {
      end_block();
      stmt.bodies.push_back(body({"endfor"}));
      take();
    }
    end_block();
  }

  void assign(Stmt& stmt) {
    stmt.names = targets();
    stmt.kind = Stmt::Kind::assign;
    if (stmt.names.size() == 1 && skip_symbol(".")) {
      stmt.kind = Stmt::Kind::assign_member;
      stmt.names.push_back(expect_name());
    }
    if (skip_symbol("=")) {
      stmt.exprs.push_back(tuple());
      end_block();
      return;
    }
    if (stmt.kind != Stmt::Kind::assign || stmt.names.size() != 1) unexpected("\"=\"");
    stmt.kind = Stmt::Kind::assign_block;
    stmt.exprs.push_back(filters(nullptr));
    end_block();
    stmt.bodies.push_back(body({"endset"}));
    end_tag("endset");
  }

  void parameters(Stmt& stmt) {
    expect_symbol("(");
    while (!skip_symbol(")")) {
      if (!stmt.parameters.empty()) {
        expect_symbol(",");
        if (skip_symbol(")")) return;
      }
      Parameter parameter;
      parameter.name = expect_name();
      if (skip_symbol("=")) {
        parameter.fallback = expression();
      } else if (!stmt.parameters.empty() && stmt.parameters.back().fallback) {
        fail(fmt::format("the parameter \"{}\" needs a default", parameter.name));
      }
      stmt.parameters.push_back(std::move(parameter));
    }
  }

  void with(Stmt& stmt) {
    stmt.kind = Stmt::Kind::with;
    while (!at(Token::Kind::block_end)) {
      if (!stmt.names.empty()) expect_symbol(",");
      stmt.names.push_back(expect_name());
      expect_symbol("=");
      stmt.exprs.push_back(expression());
    }
    end_block();
    stmt.bodies.push_back(body({"endwith"}));
    end_tag("endwith");
  }

  int loops_ = 0;
};

}  // namespace

Block parse(std::string_view source) { return StatementParser(tokenize(source)).run(); }

}  // namespace tagalong::tokenizer::jinja
