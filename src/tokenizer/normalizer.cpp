#include "tokenizer/normalizer.h"

#include <utf8proc.h>

#include <cstdlib>
#include <new>

#include "tokenizer/regex.h"
#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"

namespace tagalong::tokenizer {
namespace {

constexpr int kMaxDepth = 16;

std::string compose(std::string_view text) {
  utf8proc_uint8_t* composed = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(
      reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
      &composed, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  if (size == UTF8PROC_ERROR_NOMEM) throw std::bad_alloc();
  if (size < 0) throw base::input_error("NFC: {}", utf8proc_errmsg(size));
  std::string result(reinterpret_cast<const char*>(composed), static_cast<std::size_t>(size));
  std::free(composed);
  return result;
}

// Only stretches around a character that NFC may change go through the library: a starter and all that
// follows it and is not a plain starter.
class Nfc : public Normalizer {
 public:
  void apply(AlignedText& text) const override {
    const CodePointTable& table = CodePointTable::instance();
    const std::string_view view = text.view();
    AlignedText::Rewriter out(text);
    bool changed = false;
    std::size_t kept = 0;     // all before is in `out`, once changed
    std::size_t starter = 0;  // where the last plain starter begins
    for (std::size_t at = 0; at < view.size();) {
      if (static_cast<unsigned char>(view[at]) < 0x80) {
        starter = at++;
        continue;
      }
      const CodePoint c = code_point_at(view, at);
      if (!table.nfc_may_change(c.value)) {
        starter = table.nfc_opaque(c.value) ? at + c.length : at;
        at += c.length;
        continue;
      }
      std::size_t end = at + c.length;
      while (end < view.size()) {
        const CodePoint next = code_point_at(view, end);
        if (!table.nfc_may_change(next.value)) break;
        end += next.length;
      }
      const std::string_view stretch = view.substr(starter, end - starter);
      const std::string composed = compose(stretch);
      if (composed != stretch) {
        out.keep(kept, starter);
        out.replace(starter, end, composed);
        kept = end;
        changed = true;
      }
      starter = at = end;
    }
    if (!changed) return;
    out.keep(kept, view.size());
    out.finish();
  }
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
    const auto found = [&](TextRange match) {
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
  if (type == "NFC") return std::make_unique<Nfc>();
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
