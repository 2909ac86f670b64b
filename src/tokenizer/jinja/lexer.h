// A template's source as tokens, with white space already treated as trim_blocks and lstrip_blocks say.
//
// A pure function; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tagalong::tokenizer::jinja {

struct Token {
  enum class Kind {
    text,
    block_begin,
    block_end,
    output_begin,
    output_end,
    name,
    string,
    integer,
    real,
    symbol,
    end
  };
  Kind kind;
  std::string text;  // of a string: its value
  int line;
};

// Throws InputError naming the line. The last token is `end`.
std::vector<Token> tokenize(std::string_view source);

}  // namespace tagalong::tokenizer::jinja
