// A stretch of whole numbers.
#pragma once

namespace tagalong::base {

// From begin to before end.
struct Range {
  int begin;
  int end;

  int size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

}  // namespace tagalong::base
