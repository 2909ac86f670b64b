// A template as a tree.
//
// Immutable once parsed: any thread may render it. Its depth is bounded by the parser, so that walking and
// destroying it may recurse.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tokenizer/jinja/value.h"

namespace tagalong::tokenizer::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Expr {
  enum class Kind {
    constant,
    name,       // name
    list,       // args
    tuple,      // args
    dict,       // args: key, value, key, value...
    attribute,  // args[0] . name
    subscript,  // args[0] [ args[1] ]
    slice,      // args[0] [ args[1] : args[2] : args[3] ], absent ones null
    call,       // args[0] ( args[1]... , named... )
    filter,     // args[0] | name ( args[1]... , named... )
    test,       // args[0] is name ( args[1]... )
    unary,      // name is the operator: -, +, not
    binary,     // name is the operator
    logic_and,
    logic_or,
    comparison,  // args[0] operators[0] args[1] operators[1] ...
    condition,   // args[0] if args[1] else args[2], which may be null
  };
  Kind kind;
  int line = 0;
  int depth = 1;
  std::string name;
  Value constant;
  std::vector<ExprPtr> args;
  std::vector<std::pair<std::string, ExprPtr>> named;
  std::vector<std::string> operators;
};

struct Stmt;
using Block = std::vector<Stmt>;

struct Parameter {
  std::string name;
  ExprPtr fallback;  // null: none
};

struct Stmt {
  enum class Kind {
    text,           // text
    output,         // exprs[0]
    branch,         // exprs[i] guards bodies[i]; one more body is the else
    loop,           // for names in exprs[0] if exprs[1] (may be null); bodies[0], bodies[1] is the else
    assign,         // names = exprs[0]
    assign_member,  // names[0] . names[1] = exprs[0]
    assign_block,   // names[0] = bodies[0], through the filters of exprs[0] (may be null)
    macro,          // names[0] ( parameters ): bodies[0]
    call,           // exprs[0] with bodies[0] as its caller( parameters )
    filter,         // bodies[0] through the filters of exprs[0]
    with,           // names[i] = exprs[i] for bodies[0]
    scope,          // bodies[0] in a scope of its own
    break_loop,
    continue_loop,
  };
  Kind kind;
  int line = 0;
  Text text;
  std::vector<std::string> names;
  std::vector<ExprPtr> exprs;
  std::vector<Block> bodies;
  std::vector<Parameter> parameters;
};

}  // namespace tagalong::tokenizer::jinja
