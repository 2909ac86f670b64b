// Two texts side by side, broken between words. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tagalong::tools {

// Lines of at most `width` characters (code points; a longer word is cut). A blank line of the text is kept.
std::vector<std::string> wrap(std::string_view utf8, int width);

// Both texts under their headings, each wrapped to `width`; ends with a newline.
std::string side_by_side(std::string_view left_heading, std::string_view left, std::string_view right_heading,
                         std::string_view right, int width);

}  // namespace tagalong::tools
