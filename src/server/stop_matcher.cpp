#include "server/stop_matcher.h"

#include <algorithm>

namespace tagalong::server {

bool StopMatcher::ends_here(std::string_view stop) const { return tail_.ends_with(stop); }

void StopMatcher::push(std::string_view piece) {
  if (matched_) return;
  if (stops_.empty()) {
    certain_ = seen_ += piece.size();
    return;
  }
  std::size_t longest = 0;
  for (const std::string& stop : stops_) longest = std::max(longest, stop.size());
  // Byte by byte, so that the first complete stop string wins however the text was cut.
  for (const char c : piece) {
    tail_ += c;
    ++seen_;
    std::size_t length = 0;
    for (const std::string& stop : stops_) {
      if (ends_here(stop)) length = std::max(length, stop.size());
    }
    if (length != 0) {
      matched_ = true;
      certain_ = seen_ - length;
      return;
    }
    if (tail_.size() > 2 * longest) tail_.erase(0, tail_.size() - longest);
  }
  // The longest end of the text that begins a stop string.
  std::size_t held = 0;
  for (const std::string& stop : stops_) {
    for (std::size_t n = std::min(stop.size() - 1, tail_.size()); n > held; --n) {
      if (std::string_view(tail_).ends_with(std::string_view(stop).substr(0, n))) held = n;
    }
  }
  certain_ = seen_ - held;
}

void StopMatcher::finish() {
  if (!matched_) certain_ = seen_;
}

}  // namespace tagalong::server
