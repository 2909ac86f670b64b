// Names from files, made fit for a message: quoted, control characters escaped, long ones cut.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace tagalong::checkpoint {

inline bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

inline bool has_control_characters(std::string_view text) {
  return std::any_of(text.begin(), text.end(), is_control);
}

inline std::string quote(std::string_view text) {
  constexpr std::size_t kShown = 200;
  std::string quoted = "'";
  for (const char c : text.substr(0, kShown)) {
    if (is_control(c)) {
      quoted += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + (text.size() > kShown ? "...'" : "'");
}

}  // namespace tagalong::checkpoint
