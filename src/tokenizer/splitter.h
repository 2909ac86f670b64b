// What finds the matches of a split pattern: a literal, a class of characters, or a regular expression.
//
// Immutable: any thread.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "tokenizer/split.h"
#include "tokenizer/unicode.h"

namespace tagalong::tokenizer {

class Splitter {
 public:
  virtual ~Splitter() = default;
  // Appends matches and gaps of valid UTF-8, side by side, covering it.
  virtual void find(std::string_view text, std::vector<Fragment>& out) const = 0;
};

// Every character of the set is a match of its own.
std::unique_ptr<Splitter> class_splitter(ClassSet set);
std::unique_ptr<Splitter> literal_splitter(std::string_view literal, std::string_view path);
// Known patterns get a hand-written splitter, all others PCRE2.
std::unique_ptr<Splitter> regex_splitter(std::string_view pattern, std::string_view path);
// Always PCRE2: the oracle of the hand-written ones.
std::unique_ptr<Splitter> pcre_splitter(std::string_view pattern, std::string_view path);

}  // namespace tagalong::tokenizer
