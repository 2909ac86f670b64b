// A recorded routing trace: JSON lines, read whole and checked, with the scores of each row of each step.
//
// The first line is a header with n_experts and top_k, and may name scoring, renormalise, scaling,
// fused_shared_experts and ranked: whether the ids of a row stand best first. Otherwise their weights rank
// them, which is not the model's order where a bias has a say in the choice. Every further line is a step
// (`ids` and `w` hold a list per row), one row (`ids` and `w` hold the row itself), or a step of full scores
// (`logits`, a list of n_experts per row). Written by hand, by other servers' profilers, and by the per_token
// recorder of this one. Not thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <istream>
#include <string>
#include <string_view>
#include <vector>

#include "routing/router_spec.h"
#include "routing/row_role.h"

namespace tagalong::tools {

struct TraceStep {
  int layer = 0;
  int rows = 0;
  // [rows, experts]: the logit, or the number whose sigmoid is the recorded weight; -infinity where nothing
  // was recorded.
  std::vector<float> logits{};
  std::vector<float> keys{};              // [rows, experts] the recorded order, where it is known; or empty
  std::vector<routing::RowRole> roles{};  // [rows], decode unless the trace says otherwise
};

struct RouteTrace {
  std::string model;
  int experts = 0;
  int top_k = 0;
  int fused_shared_experts = 0;  // ids past the routed experts that the reader passes over
  float scaling = 1.0F;          // what the recorded weights were multiplied by
  routing::Scoring scoring = routing::Scoring::kSigmoid;  // turns the steps' logits into scores
  bool renormalise = false;
  bool steps_recorded = true;  // false: lines are single rows, and who shared a step is unknown
  bool ranked = false;         // the ids of a row stand best first
  bool full_scores = true;     // false: nothing is known beyond each row's own top-k
  std::vector<TraceStep> steps{};

  // The decode rows in their order, dealt anew into steps of `rows`; what does not fill a step is left out.
  RouteTrace in_steps_of(int rows) const;
};

// Throw base::InputError naming the file, the line, the field and what was expected.
RouteTrace read_route_trace(std::istream& in, std::string_view name);
RouteTrace read_route_trace(const std::filesystem::path& file);

}  // namespace tagalong::tools
