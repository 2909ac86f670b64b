// Hand-written splitters for the split patterns of the model families at hand, chosen by the exact pattern.
//
// Each does what a backtracking engine does with its pattern, without backtracking; the tests compare them
// with PCRE2. Linear in the text.
#include "tokenizer/known_splitters.h"

#include <string>

#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"

namespace tagalong::tokenizer {
namespace {

constexpr ClassSet kNoText = kSpaces | kLetters | kNumbers;

// Reads classes at byte positions of a text.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text), table_(CodePointTable::instance()) {}

  std::size_t size() const { return text_.size(); }
  char byte(std::size_t at) const { return at < text_.size() ? text_[at] : '\0'; }
  bool newline(std::size_t at) const { return at < text_.size() && (text_[at] == '\n' || text_[at] == '\r'); }
  // False at the end.
  bool is(std::size_t at, ClassSet set) const {
    return at < text_.size() && table_.is(code_point_at(text_, at).value, set);
  }
  // True for a character outside the set; false at the end.
  bool is_not(std::size_t at, ClassSet set) const {
    return at < text_.size() && !table_.is(code_point_at(text_, at).value, set);
  }
  std::size_t next(std::size_t at) const { return at + code_point_at(text_, at).length; }
  std::size_t skip(std::size_t at, ClassSet set) const {
    while (at < text_.size()) {
      const CodePoint c = code_point_at(text_, at);
      if (!table_.is(c.value, set)) break;
      at += c.length;
    }
    return at;
  }
  std::size_t skip_newlines(std::size_t at) const {
    while (newline(at)) ++at;
    return at;
  }

 private:
  std::string_view text_;
  const CodePointTable& table_;
};

enum class Case { sensitive, ignored };

// The end of 's 't 're 've 'm 'll 'd at `at`, or `at`. Without regard to case, U+017F is an s.
std::size_t contraction(const Cursor& c, std::size_t at, Case rule) {
  if (c.byte(at) != '\'') return at;
  const auto letter = [&](std::size_t i) {
    const char byte = c.byte(i);
    return rule == Case::ignored && byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte + ('a' - 'A')) : byte;
  };
  switch (letter(at + 1)) {
    case 's':
    case 't':
    case 'm':
    case 'd':
      return at + 2;
    case 'r':
    case 'v':
      return letter(at + 2) == 'e' ? at + 3 : at;
    case 'l':
      return letter(at + 2) == 'l' ? at + 3 : at;
    case '\xC5':
      return rule == Case::ignored && c.byte(at + 2) == '\xBF' ? at + 3 : at;
    default:
      return at;
  }
}

enum class Newlines { apart, with_space };

// \s*[\r\n]+ (if apart), \s+(?!\S), \s+ at white space.
std::size_t white_space(const Cursor& c, std::size_t at, Newlines newlines) {
  std::size_t end = at;
  std::size_t last = at;           // where the last character of the run begins
  std::size_t after_newline = at;  // the end of the last newline in the run
  while (c.is(end, kSpaces)) {
    last = end;
    end = c.next(end);
    if (c.newline(last)) after_newline = end;
  }
  if (newlines == Newlines::apart && after_newline > at) return after_newline;
  // The last space belongs to what follows, unless it is the only one.
  return end == c.size() || last == at ? end : last;
}

std::size_t up_to(const Cursor& c, std::size_t at, ClassSet set, int limit) {
  for (int i = 0; i < limit && c.is(at, set); ++i) at = c.next(at);
  return at;
}

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
struct Gpt2 {
  static std::size_t match(const Cursor& c, std::size_t at) {
    if (const std::size_t end = contraction(c, at, Case::sensitive); end > at) return end;
    const std::size_t start = c.byte(at) == ' ' ? at + 1 : at;
    for (const ClassSet set : {kLetters, kNumbers}) {
      if (c.is(start, set)) return c.skip(start, set);
    }
    if (c.is_not(start, kNoText)) return c.skip(start, static_cast<ClassSet>(~kNoText));
    return white_space(c, at, Newlines::with_space);
  }
};

// (?i:'s|...)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
template <int digits>
struct Cl100k {
  static std::size_t match(const Cursor& c, std::size_t at) {
    if (const std::size_t end = contraction(c, at, Case::ignored); end > at) return end;
    if (c.is(at, kLetters)) return c.skip(at, kLetters);
    if (c.is(at, kNumbers)) return up_to(c, at, kNumbers, digits);
    if (!c.newline(at)) {
      const std::size_t next = c.next(at);
      if (c.is(next, kLetters)) return c.skip(next, kLetters);
    }
    const std::size_t start = c.byte(at) == ' ' ? at + 1 : at;
    if (c.is_not(start, kNoText)) return c.skip_newlines(c.skip(start, static_cast<ClassSet>(~kNoText)));
    return white_space(c, at, Newlines::apart);
  }
};

// Words that begin with capitals, then words of capitals, each with one leading character and a contraction.
struct O200k {
  static constexpr ClassSet kUpper = set_of(CharClass::upper) | set_of(CharClass::title) |
                                     set_of(CharClass::modifier) | set_of(CharClass::other_letter) | kMarks;
  static constexpr ClassSet kLower =
      set_of(CharClass::lower) | set_of(CharClass::modifier) | set_of(CharClass::other_letter) | kMarks;

  // [upper]*[lower]+ from `at`, or `at`.
  static std::size_t word(const Cursor& c, std::size_t at) {
    std::size_t end = at;
    std::size_t both = at;  // the end of the last character that is of both sets
    while (c.is(end, kUpper)) {
      const std::size_t next = c.next(end);
      if (c.is(end, kLower)) both = next;
      end = next;
    }
    // The capitals give back what the other set needs.
    return c.is(end, kLower) ? c.skip(end, kLower) : both;
  }

  static std::size_t match(const Cursor& c, std::size_t at) {
    const bool leads = !c.newline(at) && c.is_not(at, kLetters | kNumbers);
    const std::size_t after = leads ? c.next(at) : at;
    if (const std::size_t end = word(c, after); end > after) return contraction(c, end, Case::ignored);
    if (const std::size_t end = word(c, at); end > at) return contraction(c, end, Case::ignored);
    if (const std::size_t end = c.skip(after, kUpper); end > after) return contraction(c, end, Case::ignored);
    if (const std::size_t end = c.skip(at, kUpper); end > at) return contraction(c, end, Case::ignored);
    if (c.is(at, kNumbers)) return up_to(c, at, kNumbers, 3);
    const std::size_t start = c.byte(at) == ' ' ? at + 1 : at;
    if (c.is_not(start, kNoText)) {
      std::size_t end = c.skip(start, static_cast<ClassSet>(~kNoText));
      while (c.newline(end) || c.byte(end) == '/') ++end;
      return end;
    }
    return white_space(c, at, Newlines::apart);
  }
};

// The third pattern of DeepSeek-V3; it leaves gaps.
struct DeepSeek {
  static constexpr ClassSet kSigns = kPunctuation | kSymbols;

  static bool ascii_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

  static std::size_t match(const Cursor& c, std::size_t at) {
    const char first = c.byte(at);
    if (first > ' ' && first < '\x7F' && c.is(at, kSigns) && ascii_letter(c.byte(at + 1))) {
      std::size_t end = at + 1;
      while (ascii_letter(c.byte(end))) ++end;
      return end;
    }
    if (!c.newline(at) && c.is_not(at, kLetters | kSigns)) {
      const std::size_t after = c.next(at);
      if (const std::size_t end = c.skip(after, kLetters | kMarks); end > after) return end;
    }
    if (const std::size_t end = c.skip(at, kLetters | kMarks); end > at) return end;
    const std::size_t start = first == ' ' ? at + 1 : at;
    if (const std::size_t end = c.skip(start, kSigns); end > start) return c.skip_newlines(end);
    return c.is(at, kSpaces) ? white_space(c, at, Newlines::apart) : at;
  }
};

// \p{N}{1,3}
struct Digits3 {
  static std::size_t match(const Cursor& c, std::size_t at) { return up_to(c, at, kNumbers, 3); }
};

// [一-龥぀-ゟ゠-ヿ]+
struct Cjk {
  static std::size_t match(const Cursor& c, std::size_t at) {
    // Three bytes each, from E3 81 80 on.
    const auto wide = [&](std::size_t i) {
      const auto b = [&](std::size_t j) {
        return static_cast<unsigned>(static_cast<unsigned char>(c.byte(i + j)));
      };
      if (b(0) < 0xE3 || b(0) > 0xE9) return false;
      const unsigned value = (b(0) & 0x0F) << 12 | (b(1) & 0x3F) << 6 | (b(2) & 0x3F);
      return (value >= 0x4E00 && value <= 0x9FA5) || (value >= 0x3040 && value <= 0x30FF);
    };
    while (wide(at)) at += 3;
    return at;
  }
};

template <typename Pattern>
class KnownSplitter : public Splitter {
 public:
  void find(std::string_view text, std::vector<Fragment>& out) const override {
    const Cursor cursor(text);
    std::size_t gap = 0;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = Pattern::match(cursor, at);
      if (end == at) {
        at = cursor.next(at);
        continue;
      }
      if (gap < at) out.push_back({gap, at, false});
      out.push_back({at, end, true});
      gap = at = end;
    }
    if (gap < text.size()) out.push_back({gap, text.size(), false});
  }
};

template <typename Pattern>
std::unique_ptr<Splitter> make() {
  return std::make_unique<KnownSplitter<Pattern>>();
}

constexpr KnownPattern kKnown[] = {
    {"gpt2", R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", make<Gpt2>},
    {"qwen",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     make<Cl100k<1>>},
    {"llama3_glm",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     make<Cl100k<3>>},
    {"o200k",
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
     R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     make<O200k>},
    {"deepseek_digits", R"(\p{N}{1,3})", make<Digits3>},
    {"deepseek_cjk", "[一-龥\u3040-ゟ゠-ヿ]+", make<Cjk>},
    {"deepseek",
     "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
     "?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
     make<DeepSeek>},
};

}  // namespace

std::span<const KnownPattern> known_patterns() { return kKnown; }

std::unique_ptr<Splitter> known_splitter(std::string_view pattern) {
  for (const KnownPattern& known : kKnown) {
    if (known.pattern == pattern) return known.make();
  }
  return nullptr;
}

}  // namespace tagalong::tokenizer
