// The order in which a pass takes matrices that different numbers of rows are multiplied with.
//
// A matrix with many rows is bound by products, one with few by memory. Workers take equal runs of the tasks;
// so that they do not all wait for memory at once and leave it idle at once, their runs go against each
// other: from few rows to many for one worker, from many to few for the next. Each gets about the same load.
// Changes speed only: no matrix's results depend on another's.
//
// Scratch memory, made once for the most matrices; arranged by one thread, then read by any.
#pragma once

#include <compare>
#include <cstddef>
#include <vector>

namespace tagalong::nn {

class LoadOrder {
 public:
  LoadOrder() = default;
  explicit LoadOrder(int matrices)
      : sorted_(static_cast<std::size_t>(matrices)), order_(static_cast<std::size_t>(matrices)) {}

  // For matrices that rows_of(0), rows_of(1), ... rows of activations are multiplied with, at most as
  // many as there is room for, and workers >= 1.
  template <typename RowsOf>
  void arrange(int matrices, int workers, const RowsOf& rows_of) {
    for (int m = 0; m < matrices; ++m) sorted_[m] = {rows_of(m), m};
    deal(matrices, workers);
  }

  // The matrix in a place, 0 being the first.
  int operator[](int place) const { return order_[place]; }

 private:
  struct Load {
    int rows;
    int matrix;
    auto operator<=>(const Load&) const = default;
  };
  void deal(int matrices, int workers);

  std::vector<Load> sorted_;
  std::vector<int> order_;
};

}  // namespace tagalong::nn
