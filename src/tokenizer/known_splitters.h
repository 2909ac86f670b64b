// Split patterns that have a hand-written splitter.
//
// Pure functions; any thread.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "tokenizer/splitter.h"

namespace tagalong::tokenizer {

struct KnownPattern {
  std::string_view name;
  std::string_view pattern;
  std::unique_ptr<Splitter> (*make)();
};

// For the tests, which compare each with PCRE2.
std::span<const KnownPattern> known_patterns();

// Null if the pattern is not known.
std::unique_ptr<Splitter> known_splitter(std::string_view pattern);

}  // namespace tagalong::tokenizer
