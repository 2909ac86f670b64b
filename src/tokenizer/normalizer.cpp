#include "tokenizer/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <span>

#include "tokenizer/regex.h"
#include "tokenizer/unicode.h"
#include "tokenizer/unicode_form.h"
#include "tokenizer/utf8.h"

namespace tagalong::tokenizer {
namespace {

using Form = UnicodeForm::Form;
constexpr int kMaxDepth = 16;

// Replaces each character for which change(c) has a text. The reference looks at characters one by one too.
template <typename Change>
void change_characters(AlignedText& text, Change&& change) {
  const std::string_view view = text.view();
  AlignedText::Rewriter out(text);
  std::size_t kept = 0;
  for (std::size_t at = 0; at < view.size();) {
    const CodePoint c = code_point_at(view, at);
    if (const std::optional<std::string> by = change(c.value)) {
      out.keep(kept, at);
      out.replace(at, at + c.length, *by);
      kept = at + c.length;
    }
    at += c.length;
  }
  if (kept == 0) return;
  out.keep(kept, view.size());
  out.finish();
}

class Lowercase : public Normalizer {
 public:
  void apply(AlignedText& text) const override {
    change_characters(text, [](char32_t c) -> std::optional<std::string> {
      if (c == 0x130) return "i\u0307";  // the only one that becomes two
      const char32_t lower = lower_of(c);
      if (lower == c) return std::nullopt;
      std::string by;
      append_utf8(by, lower);
      return by;
    });
  }

 private:
  static char32_t lower_of(char32_t c) {
    if (c < 0x80) return c >= U'A' && c <= U'Z' ? c + 0x20 : c;
    for (const CaseRange& range : lower_since_14()) {
      if (c >= range.first && c <= range.last) return range.lower + (c - range.first);
    }
    return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
  }
};

class StripAccents : public Normalizer {
 public:
  void apply(AlignedText& text) const override {
    change_characters(text, [](char32_t c) -> std::optional<std::string> {
      const std::span<const ClassRange> ranges = accents();
      const auto range = std::ranges::lower_bound(ranges, c, {}, &ClassRange::last);
      if (range == ranges.end() || c < range->first) return std::nullopt;
      return "";
    });
  }
};

// White space at the ends.
class Strip : public Normalizer {
 public:
  explicit Strip(const JsonView& json)
      : left_(json.boolean("strip_left", true)), right_(json.boolean("strip_right", true)) {}
  void apply(AlignedText& text) const override {
    const std::string_view view = text.view();
    const auto is_space = [](CodePoint c) { return CodePointTable::instance().is(c.value, kSpaces); };
    std::size_t begin = 0;
    std::size_t end = view.size();
    while (left_ && begin < end && is_space(code_point_at(view, begin))) {
      begin += code_point_at(view, begin).length;
    }
    while (right_ && begin < end && is_space(code_point_before(view, end))) {
      end -= code_point_before(view, end).length;
    }
    if (begin == 0 && end == view.size()) return;
    AlignedText::Rewriter out(text);
    out.keep(begin, end);
    out.finish();
  }

 private:
  bool left_;
  bool right_;
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::string_view text) : text_(text) {}
  void apply(AlignedText& text) const override {
    const std::size_t size = text.view().size();
    if (size == 0) return;
    AlignedText::Rewriter out(text);
    // As in the reference, the prefix stands for the first character.
    out.replace(0, code_point_at(text.view(), 0).length, text_);
    out.keep(0, size);
    out.finish();
  }

 private:
  std::string text_;
};

// A few replacements by long texts, one after the other, would fill any memory.
constexpr std::size_t kMaxGrown = std::size_t{256} << 20;

class Replace : public Normalizer {
 public:
  Replace(const JsonView& json) : by_(json.string("content")) {
    const JsonView pattern = json.at("pattern");
    if (const auto literal = pattern.find("String")) {
      literal_ = literal->string();
      if (literal_.empty()) throw base::input_error("{}: an empty pattern", literal->path());
    } else {
      const JsonView regex = pattern.at("Regex");
      regex_.emplace(regex.string(), regex.path());
    }
  }
  void apply(AlignedText& text) const override {
    const std::string_view view = text.view();
    AlignedText::Rewriter out(text);
    std::size_t kept = 0;
    std::size_t size = view.size();
    const auto found = [&](TextRange match) {
      size = size + by_.size() - (match.end - match.begin);
      if (size > kMaxGrown && by_.size() > match.end - match.begin) {
        throw base::input_error("a Replace normalizer makes the text longer than {} bytes", kMaxGrown);
      }
      out.keep(kept, match.begin);
      out.replace(match.begin, match.end, by_);
      kept = match.end;
    };
    if (regex_) {
      regex_->for_each_match(view, found);
    } else {
      for (std::size_t at = view.find(literal_); at != view.npos; at = view.find(literal_, kept)) {
        found({at, at + literal_.size()});
      }
    }
    if (kept == 0) return;
    out.keep(kept, view.size());
    out.finish();
  }

 private:
  std::string literal_;
  std::optional<Regex> regex_;
  std::string by_;
};

class Sequence : public Normalizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<Normalizer>> parts) : parts_(std::move(parts)) {}
  void apply(AlignedText& text) const override {
    for (const auto& part : parts_) part->apply(text);
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> parts_;
};

std::unique_ptr<Normalizer> parse_at(const JsonView& json, int depth) {
  if (depth > kMaxDepth) throw base::input_error("{}: nested deeper than {}", json.path(), kMaxDepth);
  const std::string_view type = json.string("type");
  if (type == "NFC") return std::make_unique<UnicodeForm>(Form::nfc);
  if (type == "NFD") return std::make_unique<UnicodeForm>(Form::nfd);
  if (type == "NFKC") return std::make_unique<UnicodeForm>(Form::nfkc);
  if (type == "NFKD") return std::make_unique<UnicodeForm>(Form::nfkd);
  if (type == "Lowercase") return std::make_unique<Lowercase>();
  if (type == "StripAccents") return std::make_unique<StripAccents>();
  if (type == "Strip") return std::make_unique<Strip>(json);
  if (type == "Prepend") return std::make_unique<Prepend>(json.string("prepend"));
  if (type == "Replace") return std::make_unique<Replace>(json);
  if (type == "Sequence") {
    std::vector<std::unique_ptr<Normalizer>> parts;
    json.at("normalizers").for_each([&](const JsonView& part) {
      parts.push_back(parse_at(part, depth + 1));
    });
    return std::make_unique<Sequence>(std::move(parts));
  }
  throw base::input_error("{}: unknown normalizer \"{}\"", json.path(), type);
}

}  // namespace

std::unique_ptr<Normalizer> Normalizer::parse(const std::optional<JsonView>& json) {
  return json ? parse_at(*json, 0) : nullptr;
}

}  // namespace tagalong::tokenizer
