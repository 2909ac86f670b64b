// The token stream that the parsers of expressions and statements share. Private to this folder; one thread.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "tokenizer/jinja/ast.h"
#include "tokenizer/jinja/lexer.h"

namespace tagalong::tokenizer::jinja {

class ParserBase {
 public:
  explicit ParserBase(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

 protected:
  const Token& peek(std::size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  Token take() { return at_ + 1 < tokens_.size() ? tokens_[at_++] : tokens_.back(); }
  bool at(Token::Kind kind) const { return peek().kind == kind; }
  bool at_symbol(std::string_view text) const { return at(Token::Kind::symbol) && peek().text == text; }
  bool at_name(std::string_view text) const { return at(Token::Kind::name) && peek().text == text; }
  bool skip_symbol(std::string_view text) { return at_symbol(text) && (take(), true); }
  bool skip_name(std::string_view text) { return at_name(text) && (take(), true); }

  [[noreturn]] void fail(std::string_view what) const {
    throw base::input_error("chat template, line {}: {}", peek().line, what);
  }
  [[noreturn]] void unexpected(std::string_view expected) const {
    fail(fmt::format("expected {}, found {}", expected,
                     at(Token::Kind::end) ? "the end" : fmt::format("\"{}\"", peek().text)));
  }
  void expect_symbol(std::string_view text) {
    if (!skip_symbol(text)) unexpected(fmt::format("\"{}\"", text));
  }
  std::string expect_name() {
    if (!at(Token::Kind::name)) unexpected("a name");
    return take().text;
  }
  void expect(Token::Kind kind, std::string_view what) {
    if (!at(kind)) unexpected(what);
    take();
  }

  // Counts how deep the parser has recursed.
  class Level {
   public:
    explicit Level(ParserBase& parser) : parser_(parser) {
      if (++parser_.depth_ > kMaxDepth) parser_.fail("nested too deep");
    }
    ~Level() { --parser_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    ParserBase& parser_;
  };

  static constexpr int kMaxDepth = 100;

 private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace tagalong::tokenizer::jinja
