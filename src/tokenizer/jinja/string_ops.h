// What string methods and string filters have in common. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/jinja/text.h"

namespace tagalong::tokenizer::jinja {

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
// The first character upper, the others lower.
std::string capitalized(std::string_view text);

// Replaces from left to right, `count` times at most; all if it is negative. The marks stay with their bytes.
Text replace(const Text& text, std::string_view from, const Text& to, std::int64_t count);
// str.split: at white space if `separator` is empty. `limit` cuts at most; no limit if it is negative.
std::vector<Text> split(const Text& text, std::string_view separator, std::int64_t limit);
std::vector<Text> split_from_right(const Text& text, std::string_view separator, std::int64_t limit);
std::vector<Text> split_lines(const Text& text);

}  // namespace tagalong::tokenizer::jinja
