// A stretch of whole numbers, and into how many a larger one is cut.
#pragma once

namespace tagalong::base {

// From begin to before end.
struct Range {
  int begin;
  int end;

  int size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

// How many pieces of at most `piece` make up `whole`; piece >= 1.
constexpr int pieces_of(int whole, int piece) { return (whole + piece - 1) / piece; }

}  // namespace tagalong::base
