#include "columns.h"

#include <algorithm>

namespace tagalong::tools {

namespace {

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins_character));
}

// Bytes of the first `count` characters.
std::size_t bytes_of(std::string_view text, std::size_t count) {
  std::size_t at = 0;
  while (at < text.size() && (count > 0 || !begins_character(text[at]))) {
    if (begins_character(text[at])) --count;
    ++at;
  }
  return at;
}

void wrap_line(std::string_view line, std::size_t width, std::vector<std::string>& lines) {
  std::string current;
  while (!line.empty()) {
    const std::size_t skip = line.find_first_not_of(" \t\r");
    if (skip == std::string_view::npos) break;
    line.remove_prefix(skip);
    std::string_view word = line.substr(0, line.find_first_of(" \t\r"));
    if (characters(word) > width) word = word.substr(0, bytes_of(word, width));
    if (!current.empty() && characters(current) + 1 + characters(word) > width) {
      lines.push_back(std::move(current));
      current.clear();
    }
    if (!current.empty()) current += ' ';
    current += word;
    line.remove_prefix(word.size());
  }
  lines.push_back(std::move(current));
}

std::string padded(std::string_view text, std::size_t width) {
  const std::size_t used = characters(text);
  return std::string(text) + std::string(used < width ? width - used : 0, ' ');
}

}  // namespace

std::vector<std::string> wrap(std::string_view utf8, int width) {
  std::vector<std::string> lines;
  while (true) {
    const std::size_t end = utf8.find('\n');
    wrap_line(utf8.substr(0, end), static_cast<std::size_t>(width), lines);
    if (end == std::string_view::npos) return lines;
    utf8.remove_prefix(end + 1);
  }
}

std::string side_by_side(std::string_view left_heading, std::string_view left, std::string_view right_heading,
                         std::string_view right, int width) {
  const auto columns = static_cast<std::size_t>(width);
  const std::vector<std::string> a = wrap(left, width);
  const std::vector<std::string> b = wrap(right, width);
  const std::string rule(columns, '-');
  std::string out = padded(left_heading, columns) + " | " + std::string(right_heading) + "\n";
  out += rule + "-+-" + rule + "\n";
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    out += padded(i < a.size() ? a[i] : "", columns) + " | " + (i < b.size() ? b[i] : "") + "\n";
  }
  return out;
}

}  // namespace tagalong::tools
