#include "route_shape.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/split_mix.h"

namespace tagalong::tools {

namespace {

using base::input_error;
using nlohmann::json;

// Above 0 and below 1.
double uniform(base::SplitMix64& random) {
  return (static_cast<double>(random.next() >> 12) + 0.5) * 0x1p-52;
}

std::vector<double> numbers(const json& value, std::string_view where, double low) {
  if (!value.is_array() || value.empty()) throw input_error("{}: expected a list of numbers", where);
  std::vector<double> list;
  for (const json& item : value) {
    if (!item.is_number() || !(item.get<double>() >= low)) {
      throw input_error("{}[{}]: expected a number from {}", where, list.size(), low);
    }
    list.push_back(item.get<double>());
  }
  return list;
}

struct Distribution {
  std::vector<double> x;
  std::vector<double> cdf;

  double at(double share) const {
    const auto above = std::upper_bound(cdf.begin(), cdf.end(), share);
    if (above == cdf.begin()) return x.front();
    if (above == cdf.end()) return x.back();
    const auto i = static_cast<std::size_t>(above - cdf.begin());
    return x[i - 1] + (x[i] - x[i - 1]) * (share - cdf[i - 1]) / (cdf[i] - cdf[i - 1]);
  }
};

Distribution read_distribution(const json& layer, const std::string& where) {
  if (!layer.is_object() || !layer.contains("x") || !layer.contains("cdf")) {
    throw input_error("{}: expected an object with x and cdf", where);
  }
  Distribution result{.x = numbers(layer["x"], where + ".x", -1e30),
                      .cdf = numbers(layer["cdf"], where + ".cdf", 0.0)};
  if (result.x.size() != result.cdf.size()) {
    throw input_error("{}: x has {} values, cdf has {}", where, result.x.size(), result.cdf.size());
  }
  if (!std::ranges::is_sorted(result.x) || !std::ranges::is_sorted(result.cdf)) {
    throw input_error("{}: x and cdf are not both rising", where);
  }
  const double last = result.cdf.back();
  if (!(last > 0.0)) throw input_error("{}.cdf: ends with {}, expected the share of all logits", where, last);
  for (double& share : result.cdf) share /= last;
  return result;
}

// Appends the steps of one layer; `logit(expert)` draws one.
void draw_layer(int layer, const ShapeDraw& draw, const std::function<double(int)>& logit,
                RouteTrace& trace) {
  for (int s = 0; s < draw.steps; ++s) {
    TraceStep step{.layer = layer, .rows = draw.rows};
    for (int i = 0; i < draw.rows * trace.experts; ++i) {
      step.logits.push_back(static_cast<float>(logit(i % trace.experts)));
    }
    step.roles.assign(static_cast<std::size_t>(draw.rows), routing::RowRole::kDecode);
    trace.steps.push_back(std::move(step));
  }
}

void draw_from_distributions(const json& layers, std::string_view name, const ShapeDraw& draw,
                             base::SplitMix64& random, RouteTrace& trace) {
  if (!layers.is_object()) throw input_error("{}: layers: expected an object", name);
  if (draw.experts == 0) {
    throw input_error(
        "{}: the distribution of logits does not tell the number of experts, expected --experts", name);
  }
  trace.experts = draw.experts;
  for (int index = 0; index < static_cast<int>(layers.size()); ++index) {
    const std::string key = fmt::format("{}", index);
    if (!layers.contains(key)) throw input_error("{}: layers.{} is missing", name, key);
    const Distribution distribution = read_distribution(layers[key], fmt::format("{}: layers.{}", name, key));
    draw_layer(
        index, draw, [&](int) { return distribution.at(uniform(random)); }, trace);
  }
}

// The best k of log(count) plus Gumbel noise are k draws without replacement, each expert by its share.
void draw_from_counts(const json& layers, std::string_view name, const ShapeDraw& draw,
                      base::SplitMix64& random, RouteTrace& trace) {
  if (!layers.is_array()) throw input_error("{}: logical_count: expected a list", name);
  int index = 0;
  for (const json& layer : layers) {
    const std::string where = fmt::format("{}: logical_count[{}]", name, index);
    const std::vector<double> counts = numbers(layer, where, 0.0);
    const int experts = static_cast<int>(counts.size());
    if (trace.experts == 0) trace.experts = experts;
    if (experts != trace.experts || experts > routing::kMaxExperts) {
      throw input_error("{}: {} experts, expected {}", where, experts,
                        std::min(trace.experts, routing::kMaxExperts));
    }
    if (std::ranges::any_of(counts, [](double count) { return count > 0.0; })) {
      const auto logit = [&](int expert) {
        return std::log(counts[static_cast<std::size_t>(expert)]) - std::log(-std::log(uniform(random)));
      };
      draw_layer(index, draw, logit, trace);
    }
    ++index;
  }
}

}  // namespace

RouteTrace draw_from_shape(std::istream& in, std::string_view name, const ShapeDraw& draw) {
  const json document = json::parse(in, nullptr, false);
  if (!document.is_object()) throw input_error("{}: not a JSON object", name);
  RouteTrace trace;
  trace.scoring = routing::Scoring::kSoftmax;
  trace.renormalise = true;
  trace.top_k = draw.top_k;
  if (const auto model = document.find("model"); model != document.end() && model->is_string()) {
    trace.model = model->get<std::string>();
  }
  base::SplitMix64 random(draw.seed);
  if (document.contains("layers")) {
    draw_from_distributions(document["layers"], name, draw, random, trace);
  } else if (document.contains("logical_count")) {
    draw_from_counts(document["logical_count"], name, draw, random, trace);
  } else {
    throw input_error("{}: neither layers nor logical_count", name);
  }
  if (trace.steps.empty()) throw input_error("{}: no layer with tokens", name);
  return trace;
}

RouteTrace draw_from_shape(const std::filesystem::path& file, const ShapeDraw& draw) {
  std::ifstream in(file);
  if (!in) throw input_error("{}: cannot open", file.string());
  return draw_from_shape(in, file.string(), draw);
}

}  // namespace tagalong::tools
