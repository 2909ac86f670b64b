// From the Oniguruma dialect to PCRE2's. Everything that is not known to mean the same in both is refused.
#include <fmt/format.h>

#include <array>
#include <utility>

#include "base/error.h"
#include "tokenizer/regex.h"
#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"

namespace tagalong::tokenizer {
namespace {

// White_Space; PCRE2's own \s also has U+180E.
constexpr std::string_view kSpace =
    R"(\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
constexpr std::string_view kNotSpace =
    R"(\x{0}-\x{8}\x{E}-\x{1F}\x{21}-\x{84}\x{86}-\x{9F}\x{A1}-\x{167F}\x{1681}-\x{1FFF}\x{200B}-\x{2027})"
    R"(\x{202A}-\x{202E}\x{2030}-\x{205E}\x{2060}-\x{2FFF}\x{3001}-\x{D7FF}\x{E000}-\x{10FFFF})";

constexpr std::array<std::pair<std::string_view, ClassSet>, 12> kProperties = {{
    {"L", kLetters},
    {"Lu", set_of(CharClass::upper)},
    {"Ll", set_of(CharClass::lower)},
    {"Lt", set_of(CharClass::title)},
    {"Lm", set_of(CharClass::modifier)},
    {"Lo", set_of(CharClass::other_letter)},
    {"M", kMarks},
    {"N", kNumbers},
    {"Nd", set_of(CharClass::digit)},
    {"P", kPunctuation},
    {"S", kSymbols},
    {"Han", 0},  // a script: the same blocks in every version that matters
}};

class Translator {
 public:
  Translator(std::string_view pattern, std::string_view path) : in_(pattern), path_(path) {}

  std::string run() {
    while (at_ < in_.size()) {
      const char c = in_[at_];
      if (c == '\\') {
        escape(Place::outside);
      } else if (c == '[') {
        char_class();
      } else if (c == '(' && rest().starts_with("(?")) {
        group();
      } else if (c == '^' || c == '$') {
        refuse(std::string(1, c), "an anchor");
      } else {
        out_ += c;
        ++at_;
      }
    }
    return std::move(out_);
  }

 private:
  enum class Place { outside, in_class };

  std::string_view rest() const { return in_.substr(at_); }

  [[noreturn]] void refuse(std::string_view construct, std::string_view what) const {
    throw base::input_error("{}: regex \"{}\": {} (\"{}\") is not supported", path_, in_, what, construct);
  }

  void group() {
    for (const std::string_view known : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:"}) {
      if (rest().starts_with(known)) {
        out_ += known;
        at_ += known.size();
        return;
      }
    }
    refuse(rest().substr(0, 4), "this group");
  }

  void char_class() {
    out_ += '[';
    ++at_;
    if (rest().starts_with('^')) {
      out_ += '^';
      ++at_;
    }
    if (rest().starts_with(']')) refuse("[]", "an empty class");
    while (at_ < in_.size() && in_[at_] != ']') {
      if (in_[at_] == '[') refuse(rest().substr(0, 2), "a class inside a class");
      if (rest().starts_with("&&")) refuse("&&", "an intersection of classes");
      if (in_[at_] == '\\') {
        escape(Place::in_class);
      } else {
        out_ += in_[at_++];
      }
    }
    if (at_ == in_.size()) throw base::input_error("{}: regex \"{}\": a class is not closed", path_, in_);
    out_ += ']';
    ++at_;
  }

  void add_class(std::string_view members, Place place) {
    if (place == Place::outside) out_ += '[';
    out_ += members;
    if (place == Place::outside) out_ += ']';
  }

  void escape(Place place) {
    if (at_ + 1 >= in_.size()) throw base::input_error("{}: regex \"{}\" ends in a backslash", path_, in_);
    const char c = in_[at_ + 1];
    const std::string_view whole = in_.substr(at_, 2);
    switch (c) {
      case 's':
        at_ += 2;
        return add_class(kSpace, place);
      case 'S':
        at_ += 2;
        return add_class(kNotSpace, place);
      case 'd':
        at_ += 2;
        return property("Nd", false, place);
      case 'p':
      case 'P':
        return property_escape(place);
      case 'r':
      case 'n':
      case 't':
      case 'f':
        out_ += whole;
        at_ += 2;
        return;
      case 'x':
        return code_point_escape();
      default:
        break;
    }
    const bool alphanumeric = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (alphanumeric || static_cast<unsigned char>(c) >= 0x80) refuse(whole, "this escape");
    out_ += whole;
    at_ += 2;
  }

  void code_point_escape() {
    const std::size_t end = in_.find('}', at_);
    if (!rest().starts_with("\\x{") || end == std::string_view::npos)
      refuse(rest().substr(0, 4), "this escape");
    out_ += in_.substr(at_, end + 1 - at_);
    at_ = end + 1;
  }

  void property_escape(Place place) {
    bool negated = in_[at_ + 1] == 'P';
    const std::size_t end = in_.find('}', at_);
    if (at_ + 2 >= in_.size() || in_[at_ + 2] != '{' || end == std::string_view::npos) {
      refuse(rest().substr(0, 4), "this property");
    }
    std::string_view name = in_.substr(at_ + 3, end - at_ - 3);
    if (name.starts_with('^')) {
      negated = !negated;
      name.remove_prefix(1);
    }
    at_ = end + 1;
    property(name, negated, place);
  }

  void property(std::string_view name, bool negated, Place place) {
    for (const auto& [known, set] : kProperties) {
      if (known != name) continue;
      if (negated && place == Place::in_class) refuse(name, "a negated property in a class");
      std::string members = fmt::format("\\p{{{}}}", name);
      for (const ClassRange& range : classes_added_since_14()) {
        if ((set >> range.value & 1) == 0) continue;
        members += fmt::format("\\x{{{:X}}}-\\x{{{:X}}}", static_cast<std::uint32_t>(range.first),
                               static_cast<std::uint32_t>(range.last));
      }
      return add_class(negated ? "^" + members : members, place);
    }
    refuse(name, "the property");
  }

  std::string_view in_;
  std::string_view path_;
  std::size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string translate_regex(std::string_view pattern, std::string_view path) {
  require_utf8(pattern, path);
  return Translator(pattern, path).run();
}

}  // namespace tagalong::tokenizer
