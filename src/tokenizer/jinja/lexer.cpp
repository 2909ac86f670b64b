#include "tokenizer/jinja/lexer.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "tokenizer/jinja/text.h"
#include "tokenizer/utf8.h"

namespace tagalong::tokenizer::jinja {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// "\r\n" and "\r" become "\n"; one newline at the end goes.
std::string with_plain_newlines(std::string_view source) {
  std::string out;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      if (i + 1 < source.size() && source[i + 1] == '\n') continue;
      out += '\n';
    } else {
      out += source[i];
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(with_plain_newlines(source)), in_(source_) {}

  std::vector<Token> run() {
    while (at_ < in_.size()) root();
    add(Token::Kind::end, "");
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw base::input_error("chat template, line {}: {}", line_, what);
  }

  void add(Token::Kind kind, std::string_view text) { out_.push_back({kind, std::string(text), line_}); }

  void advance(std::size_t to) {
    line_ += static_cast<int>(std::count(in_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         in_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
    if (to > at_) line_starting_ = in_[to - 1] == '\n';
    at_ = to;
  }

  // Text up to the next tag, and the tag.
  void root() {
    std::size_t tag = at_;
    while (tag < in_.size()) {
      tag = in_.find('{', tag);
      if (tag == in_.npos || (tag + 1 < in_.size() && std::string_view("{%#").find(in_[tag + 1]) != in_.npos))
        break;
      ++tag;
    }
    if (tag >= in_.size()) tag = in_.size();
    const std::string_view text = in_.substr(at_, tag - at_);
    if (tag == in_.size()) {
      if (!text.empty()) add(Token::Kind::text, text);
      advance(tag);
      return;
    }
    const char kind = in_[tag + 1];
    const char sign = tag + 2 < in_.size() ? in_[tag + 2] : '\0';
    const std::string_view kept = before_tag(text, kind, sign);
    if (!kept.empty()) add(Token::Kind::text, kept);
    const std::size_t body = tag + 2 + (sign == '-' || sign == '+' ? 1 : 0);
    advance(body);
    if (kind == '#') return comment();
    if (kind == '{') {
      add(Token::Kind::output_begin, "{{");
      return expression("}}", Token::Kind::output_end);
    }
    if (raw()) return;
    add(Token::Kind::block_begin, "{%");
    expression("%}", Token::Kind::block_end);
  }

  // What is left of the text in front of a tag.
  std::string_view before_tag(std::string_view text, char kind, char sign) const {
    if (sign == '-') return text.substr(0, stripped(text, "", StripSide::right).end);
    if (sign == '+' || kind == '{') return text;
    const std::size_t newline = text.rfind('\n');
    const std::size_t line = newline == text.npos ? 0 : newline + 1;
    if (line == 0 && !line_starting_) return text;
    const bool blank = stripped(text.substr(line), "", StripSide::left).begin == text.size() - line;
    return blank ? text.substr(0, line) : text;
  }

  // The end of a block or comment whose closing sign is at at_, with the white space that goes with it.
  void after_tag(std::size_t end, char sign) {
    if (sign == '-') {
      end += stripped(in_.substr(end), "", StripSide::left).begin;
    } else if (sign != '+' && end < in_.size() && in_[end] == '\n') {
      ++end;
    }
    advance(end);
  }

  void comment() {
    const std::size_t close = in_.find("#}", at_);
    if (close == in_.npos) fail("a comment is not closed");
    after_tag(close + 2, close > at_ ? in_[close - 1] : '\0');
  }

  // {% raw %} ... {% endraw %}
  bool raw() {
    std::size_t i = skip_space(at_);
    if (!in_.substr(i).starts_with("raw")) return false;
    i = skip_space(i + 3);
    const char sign = i < in_.size() ? in_[i] : '\0';
    if (sign == '-' || sign == '+') ++i;
    if (!in_.substr(i).starts_with("%}")) return false;
    after_tag(i + 2, sign);
    for (std::size_t tag = in_.find("{%", at_); tag != in_.npos; tag = in_.find("{%", tag + 2)) {
      std::size_t j = tag + 2;
      const char open = j < in_.size() ? in_[j] : '\0';
      if (open == '-' || open == '+') ++j;
      j = skip_space(j);
      if (!in_.substr(j).starts_with("endraw")) continue;
      j = skip_space(j + 6);
      const char close = j < in_.size() ? in_[j] : '\0';
      if (close == '-' || close == '+') ++j;
      if (!in_.substr(j).starts_with("%}")) continue;
      const std::string_view kept = before_tag(in_.substr(at_, tag - at_), '%', open);
      if (!kept.empty()) add(Token::Kind::text, kept);
      after_tag(j + 2, close);
      return true;
    }
    fail("raw is not closed");
  }

  std::size_t skip_space(std::size_t from) const {
    return from + stripped(in_.substr(from), "", StripSide::left).begin;
  }

  void expression(std::string_view close, Token::Kind end_kind) {
    std::string nesting;
    while (true) {
      advance(skip_space(at_));
      if (at_ >= in_.size()) fail("a tag is not closed");
      if (nesting.empty() && ends_here(close, end_kind)) return;
      const char c = in_[at_];
      if (c == '\'' || c == '"') {
        string(c);
      } else if (is_digit(c)) {
        number();
      } else if (is_name_start(c)) {
        std::size_t end = at_;
        while (end < in_.size() && (is_name_start(in_[end]) || is_digit(in_[end]))) ++end;
        add(Token::Kind::name, in_.substr(at_, end - at_));
        advance(end);
      } else {
        symbol(nesting);
      }
    }
  }

  bool ends_here(std::string_view close, Token::Kind end_kind) {
    const char sign = in_[at_];
    const bool is_sign = sign == '-' || (sign == '+' && end_kind == Token::Kind::block_end);
    const std::size_t at = at_ + (is_sign ? 1 : 0);
    if (!in_.substr(at).starts_with(close)) return false;
    add(end_kind, close);
    // A newline after an output stays.
    after_tag(at + 2, end_kind == Token::Kind::output_end && sign != '-' ? '+' : sign);
    return true;
  }

  void string(char quote) {
    std::string value;
    std::size_t i = at_ + 1;
    for (; i < in_.size() && in_[i] != quote; ++i) {
      if (in_[i] != '\\') {
        value += in_[i];
        continue;
      }
      if (++i >= in_.size()) break;
      i = escape(i, value);
    }
    if (i >= in_.size()) fail("a string is not closed");
    add(Token::Kind::string, value);
    advance(i + 1);
  }

  // The escape whose letter is at `i`; returns the index of its last byte.
  std::size_t escape(std::size_t i, std::string& value) {
    static constexpr std::string_view kLetters = "\\'\"abfnrtv";
    static constexpr std::string_view kValues = "\\'\"\a\b\f\n\r\t\v";
    const char c = in_[i];
    if (c == '\n') return i;
    if (const auto index = kLetters.find(c); index != kLetters.npos) {
      value += kValues[index];
      return i;
    }
    const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0) {
      if (is_digit(c)) fail("an octal escape is not supported");
      value += '\\';  // as in Python, an unknown escape stays as it is
      value += c;
      return i;
    }
    std::uint32_t code = 0;
    for (std::size_t d = 1; d <= digits; ++d) {
      const char h = i + d < in_.size() ? in_[i + d] : '\0';
      const int nibble = is_digit(h)            ? h - '0'
                         : h >= 'a' && h <= 'f' ? h - 'a' + 10
                         : h >= 'A' && h <= 'F' ? h - 'A' + 10
                                                : -1;
      if (nibble < 0) fail("a broken escape in a string");
      code = code << 4 | static_cast<std::uint32_t>(nibble);
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) fail("an escape that is no character");
    append_utf8(value, code);
    return i + digits;
  }

  void number() {
    std::size_t end = at_;
    bool real = false;
    const auto digits = [&] {
      while (end < in_.size() &&
             (is_digit(in_[end]) || (in_[end] == '_' && end + 1 < in_.size() && is_digit(in_[end + 1]))))
        ++end;
    };
    digits();
    if (end + 1 < in_.size() && in_[end] == '.' && is_digit(in_[end + 1])) {
      real = true;
      ++end;
      digits();
    }
    if (end < in_.size() && (in_[end] == 'e' || in_[end] == 'E')) {
      std::size_t exponent = end + 1;
      if (exponent < in_.size() && (in_[exponent] == '+' || in_[exponent] == '-')) ++exponent;
      if (exponent < in_.size() && is_digit(in_[exponent])) {
        real = true;
        end = exponent;
        digits();
      }
    }
    std::string text(in_.substr(at_, end - at_));
    std::erase(text, '_');
    add(real ? Token::Kind::real : Token::Kind::integer, text);
    advance(end);
  }

  void symbol(std::string& nesting) {
    static constexpr std::array<std::string_view, 6> kDouble = {"==", "!=", "<=", ">=", "//", "**"};
    std::string_view found = in_.substr(at_, 1);
    for (const std::string_view candidate : kDouble) {
      if (in_.substr(at_).starts_with(candidate)) found = candidate;
    }
    if (found.size() == 1 &&
        std::string_view("+-*/%~()[]{}|.,:=<>").find(found[0]) == std::string_view::npos) {
      fail(fmt::format("unexpected \"{}\"", in_.substr(at_, code_point_at(in_, at_).length)));
    }
    const std::size_t opens = std::string_view("([{").find(found[0]);
    const std::size_t closes = std::string_view(")]}").find(found[0]);
    if (opens != std::string_view::npos) nesting += ")]}"[opens];
    if (closes != std::string_view::npos) {
      if (nesting.empty() || nesting.back() != found[0]) fail(fmt::format("unexpected \"{}\"", found));
      nesting.pop_back();
    }
    add(Token::Kind::symbol, found);
    advance(at_ + found.size());
  }

  std::string source_;
  std::string_view in_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> out_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  require_utf8(source, "chat template");
  return Lexer(source).run();
}

}  // namespace tagalong::tokenizer::jinja
