// Writes what routing decided as JSON lines, to be read by `tagalong route` or by anything else.
//
// Three modes: `stat` keeps sums and writes one line per layer at the end; `per_pass` writes one line per
// layer and step with the tokens of each expert; `per_token` writes the ids and weights of every row. Meant
// for studies: it formats text and may block on the stream, so an engine that serves leaves it off. One
// thread.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

#include "routing/route_plan.h"
#include "routing/row_role.h"
#include "routing/statistics.h"

namespace tagalong::routing {

enum class RecorderMode : std::uint8_t { kStat, kPerPass, kPerToken };

// "stat", "per_pass" or "per_token"; throws base::InputError.
RecorderMode parse_recorder_mode(std::string_view text);
std::string_view to_string(RecorderMode mode);

class Recorder {
 public:
  // Writes the header line. `model` and `policy` are names for the reader; `out` outlives the recorder.
  Recorder(RecorderMode mode, std::string_view model, const RoutingPolicy& policy, const RouterSpec& spec,
           int layers, std::ostream& out);

  // The plan of one MoE layer in one step. `roles` tells per_token which rows decode.
  void record(std::uint64_t step, int layer, const RoutePlan& plan, std::span<const RowRole> roles);

  // Writes what `stat` gathered. The other modes have nothing left to say.
  void finish();

 private:
  void write_line();

  RecorderMode mode_;
  std::ostream& out_;
  std::string line_;
  RoutingStatistics statistics_;  // what `stat` gathers
};

}  // namespace tagalong::routing
