// Rows drawn from what is known of a model's routing in the mean, where no rows were recorded: the
// distribution of a layer's router logits, or the tokens each expert was given.
//
// Rows are drawn independently of each other. Real neighbours are more alike, so that T and what a policy
// gives up come out too high: good for comparing policies, not for forecasts. One thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <istream>
#include <string_view>

#include "route_trace.h"

namespace tagalong::tools {

struct ShapeDraw {
  int top_k = 8;
  int experts = 0;  // must be given for distributions of logits, which do not tell it
  int rows = 16;    // of a step
  int steps = 64;   // of each layer
  std::uint64_t seed = 1;
};

// The file holds one JSON object. Either `layers`: an object of the layers 0, 1, ..., each with `x` and
// `cdf`, rising lists of the same length: the share of logits up to x. Or `logical_count`: a list of layers,
// each a list of an expert's tokens; an expert is then drawn as often as its share, and layers without tokens
// are left out. Throws base::InputError naming the file, the layer, the field, the value and the range.
RouteTrace draw_from_shape(std::istream& in, std::string_view name, const ShapeDraw& draw);
RouteTrace draw_from_shape(const std::filesystem::path& file, const ShapeDraw& draw);

}  // namespace tagalong::tools
