// From tokens to a tree.
//
// A pure function; any thread. Names of filters and tests are checked here, so that a template which needs
// more than this language fails when it is loaded.
#pragma once

#include <string_view>

#include "tokenizer/jinja/ast.h"

namespace tagalong::tokenizer::jinja {

// Throws InputError naming the line and what is wrong or not supported.
Block parse(std::string_view source);

}  // namespace tagalong::tokenizer::jinja
