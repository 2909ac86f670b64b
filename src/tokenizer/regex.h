// A regular expression in the dialect of tokenizer.json (Oniguruma), run by PCRE2.
//
// Immutable once compiled: any thread, each with its own Matcher. A construct whose meaning could differ
// between the two engines is refused when compiled; an engine failure is an error, never the end of the text.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tokenizer/aligned_text.h"

struct pcre2_real_code_8;

namespace tagalong::tokenizer {

// The same pattern for PCRE2: \s and \w as explicit classes, \p{...} with the characters of later Unicode
// versions. Throws InputError that begins with `path` and quotes what is not understood.
std::string translate_regex(std::string_view pattern, std::string_view path);

class Regex {
 public:
  // `path` is the place of the pattern in its file, for errors.
  Regex(std::string_view pattern, std::string_view path);

  // Calls found(TextRange) for the matches in valid UTF-8, from left to right, without overlap.
  template <typename Found>
  void for_each_match(std::string_view text, Found&& found) const {
    Matcher matcher(*this, text);
    while (const auto match = matcher.next()) found(*match);
  }

  class Matcher {
   public:
    Matcher(const Regex& regex, std::string_view text);
    ~Matcher();
    Matcher(const Matcher&) = delete;
    Matcher& operator=(const Matcher&) = delete;
    std::optional<TextRange> next();

   private:
    struct State;
    std::unique_ptr<State> state_;
  };

 private:
  std::string pattern_;
  std::shared_ptr<const pcre2_real_code_8> code_;
};

}  // namespace tagalong::tokenizer
