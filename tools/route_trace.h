// A recorded routing trace: JSON lines, read whole and checked, with the scores of each row of each step.
//
// The first line is a header with n_experts and top_k. Every further line is a step (`ids` and `w` hold a
// list per row), one row (`ids` and `w` hold the row itself), or a step of full scores (`logits`, a list of
// n_experts per row). Written by hand, by other servers' profilers, and by the per_token recorder of this
// one. Not thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <istream>
#include <string>
#include <string_view>
#include <vector>

namespace tagalong::tools {

struct TraceStep {
  int layer = 0;
  int rows = 0;
  // [rows, experts]: log of the recorded weight, or the logit; -infinity where nothing was recorded.
  std::vector<float> logits{};
};

struct RouteTrace {
  std::string model;
  int experts = 0;
  int top_k = 0;
  bool steps_recorded = true;  // false: lines are single rows, and who shared a step is unknown
  bool full_scores = true;     // false: nothing is known beyond each row's own top-k
  std::vector<TraceStep> steps{};

  // The rows in their order, dealt anew into steps of `rows`; what does not fill a step is left out.
  RouteTrace in_steps_of(int rows) const;
};

// Throw base::InputError naming the file, the line, the field and what was expected.
RouteTrace read_route_trace(std::istream& in, std::string_view name);
RouteTrace read_route_trace(const std::filesystem::path& file);

}  // namespace tagalong::tools
