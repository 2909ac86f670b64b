#include "tokenizer/unicode_form.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"

namespace tagalong::tokenizer {
namespace {

using Form = UnicodeForm::Form;

utf8proc_option_t options_of(Form form) {
  const int composes = form == Form::nfc || form == Form::nfkc ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  const int compatible = form == Form::nfkc || form == Form::nfkd ? UTF8PROC_COMPAT : 0;
  return static_cast<utf8proc_option_t>(UTF8PROC_STABLE | composes | compatible);
}

// Longer than any: U+FDFA becomes eighteen.
constexpr std::size_t kMaxParts = 32;

std::vector<utf8proc_int32_t> decomposed(std::string_view text, utf8proc_option_t options) {
  std::vector<utf8proc_int32_t> result;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    std::array<utf8proc_int32_t, kMaxParts> parts;
    const utf8proc_ssize_t count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c.value),
                                                           parts.data(), kMaxParts, options, nullptr);
    if (count < 0) throw base::input_error("Unicode normalisation: {}", utf8proc_errmsg(count));
    CHECK(static_cast<std::size_t>(count) <= kMaxParts, "U+{:04X} becomes {}", std::uint32_t{c.value}, count);
    result.insert(result.end(), parts.begin(), parts.begin() + count);
    at += c.length;
  }
  return result;
}

int combining_class(utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; }

// Marks that follow each other, by their class. The library would take quadratic time for a long run.
void order_marks(std::vector<utf8proc_int32_t>& characters) {
  const auto is_mark = [](utf8proc_int32_t c) { return combining_class(c) != 0; };
  for (auto begin = characters.begin(); begin != characters.end();) {
    begin = std::find_if(begin, characters.end(), is_mark);
    const auto end = std::find_if_not(begin, characters.end(), is_mark);
    std::ranges::stable_sort(begin, end, {}, combining_class);
    begin = end;
  }
}

std::string normal_form(std::string_view text, Form form) {
  const utf8proc_option_t options = options_of(form);
  std::vector<utf8proc_int32_t> characters = decomposed(text, options);
  order_marks(characters);
  if ((options & UTF8PROC_COMPOSE) != 0) {
    const utf8proc_ssize_t count = utf8proc_normalize_utf32(
        characters.data(), static_cast<utf8proc_ssize_t>(characters.size()), options);
    if (count < 0) throw base::input_error("Unicode normalisation: {}", utf8proc_errmsg(count));
    characters.resize(static_cast<std::size_t>(count));
  }
  std::string result;
  for (const utf8proc_int32_t c : characters) append_utf8(result, static_cast<char32_t>(c));
  return result;
}

// Bytes of the whole characters with which both begin.
std::size_t common_prefix(std::string_view a, std::string_view b) {
  std::size_t size = static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
  const auto inside = [&](std::string_view text) {
    return size < text.size() && (text[size] & 0xC0) == 0x80;
  };
  while (size > 0 && (inside(a) || inside(b))) --size;
  return size;
}

}  // namespace

// Only stretches around a character that the form may change go through the library: a starter and all that
// follows it and is not a plain starter.
void UnicodeForm::apply(AlignedText& text) const {
  const CodePointTable& table = CodePointTable::instance();
  const bool is_nfc = form_ == Form::nfc;
  const auto may_change = [&](char32_t c) {
    return is_nfc ? table.nfc_may_change(c) : table.compat_may_change(c);
  };
  const auto opaque = [&](char32_t c) { return is_nfc ? table.nfc_opaque(c) : table.compat_opaque(c); };
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
    if (!may_change(c.value)) {
      starter = opaque(c.value) ? at + c.length : at;
      at += c.length;
      continue;
    }
    std::size_t end = at + c.length;
    while (end < view.size()) {
      const CodePoint next = code_point_at(view, end);
      // ASCII letters change only by what follows them: with that they begin a stretch of their own.
      if (next.value < 0x80 || !may_change(next.value)) break;
      end += next.length;
    }
    const std::string_view stretch = view.substr(starter, end - starter);
    const std::string normal = normal_form(stretch, form_);
    if (normal != stretch) {
      // Without what stays as it is in front, so that offsets are no wider than need be.
      const std::size_t same = common_prefix(stretch, normal);
      out.keep(kept, starter + same);
      out.replace(starter + same, end, std::string_view(normal).substr(same));
      kept = end;
      changed = true;
    }
    starter = at = end;
  }
  if (!changed) return;
  out.keep(kept, view.size());
  out.finish();
}

}  // namespace tagalong::tokenizer
