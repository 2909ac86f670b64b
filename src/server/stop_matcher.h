// Finds stop strings in text that arrives in pieces, and holds back what could still become one.
//
// What comes out does not depend on where the pieces were cut: of all stop strings the one that is complete
// first ends the text, and of those complete at the same byte the longest. Offsets count bytes from the start
// of the text. One thread at a time.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tagalong::server {

class StopMatcher {
 public:
  // No string may be empty.
  explicit StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // Takes the next piece. After a match all further text is ignored.
  void push(std::string_view piece);
  // No more will come: nothing is held back any longer.
  void finish();

  bool matched() const { return matched_; }
  // Text before this offset is certain; with a match, all that there is.
  std::size_t certain() const { return certain_; }

 private:
  bool ends_here(std::string_view stop) const;

  std::vector<std::string> stops_;
  std::string tail_;      // the last bytes seen, at least as many as the longest stop string
  std::size_t seen_ = 0;  // bytes pushed
  std::size_t certain_ = 0;
  bool matched_ = false;
};

}  // namespace tagalong::server
