#include "route_trace.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace tagalong::tools {

namespace {

using base::input_error;
using nlohmann::json;

// One line of the file, with its place for messages.
struct Line {
  std::string_view file;
  std::size_t number;
  json value;

  base::InputError error(std::string_view what) const { return input_error("{}:{}: {}", file, number, what); }
};

// A value for messages: short, and without descending into what may be nested as deep as a file is long.
std::string shown(const json& value) {
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  const std::string text = value.dump();
  return text.size() <= 40 ? text : text.substr(0, 40) + "...";
}

int header_integer(const Line& line, const char* key, int high) {
  const auto found = line.value.find(key);
  if (found == line.value.end() || !found->is_number_integer()) {
    throw line.error(fmt::format("{} is missing, expected an integer in the header", key));
  }
  const auto value = found->get<std::int64_t>();
  if (value < 1 || value > high) throw line.error(fmt::format("{} = {}, expected 1..{}", key, value, high));
  return static_cast<int>(value);
}

bool header_flag(const Line& line, const char* key) {
  const auto found = line.value.find(key);
  if (found == line.value.end()) return false;
  if (!found->is_boolean())
    throw line.error(fmt::format("{} = {}, expected true or false", key, shown(*found)));
  return *found;
}

const json& list_of(const Line& line, const char* key) {
  const auto found = line.value.find(key);
  if (found == line.value.end() || !found->is_array()) {
    throw line.error(fmt::format("{} is missing, expected a list", key));
  }
  return *found;
}

float number(const Line& line, const json& value, const char* key) {
  if (!value.is_number()) throw line.error(fmt::format("{} holds {}, expected numbers", key, shown(value)));
  return value.get<float>();
}

void add_choice(const Line& line, const json& ids, const json& weights, const RouteTrace& trace,
                TraceStep& step) {
  if (!ids.is_array() || !weights.is_array() || ids.size() != weights.size()) {
    throw line.error(fmt::format("row {}: ids and w differ in length or are no lists", step.rows));
  }
  const auto experts = static_cast<std::size_t>(trace.experts);
  step.logits.resize(step.logits.size() + experts, -std::numeric_limits<float>::infinity());
  float* row = step.logits.data() + step.logits.size() - experts;
  if (trace.ranked) step.keys.resize(step.logits.size(), -std::numeric_limits<float>::infinity());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::int64_t id = ids[i].is_number_integer() ? ids[i].get<std::int64_t>() : -1;
    const float weight = number(line, weights[i], "w") / trace.scaling;
    // A fused shared expert has an id past the routed ones and no part in the choice.
    if (id >= trace.experts && id < trace.experts + trace.fused_shared_experts) continue;
    if (id < 0 || id >= trace.experts) {
      throw line.error(fmt::format("row {}: ids[{}] = {}, expected 0..{}", step.rows, i, shown(ids[i]),
                                   trace.experts - 1));
    }
    if (!(weight >= 0.0F && weight <= 1.001F)) {  // recorded to a few digits, so 1 may be a little more
      throw line.error(fmt::format("row {}: w[{}] = {}, expected 0..1 times the header's scaling", step.rows,
                                   i, shown(weights[i])));
    }
    if (row[id] != -std::numeric_limits<float>::infinity()) {
      throw line.error(fmt::format("row {}: ids[{}] = {} twice", step.rows, i, id));
    }
    const float share = std::clamp(weight, 1e-30F, 1.0F);  // a recorded 0 still ranks above what is unknown
    row[id] = std::log(share / (1.0F - share));
    if (trace.ranked)
      step.keys[step.keys.size() - experts + static_cast<std::size_t>(id)] = -static_cast<float>(i);
  }
  ++step.rows;
}

void add_logits(const Line& line, const json& logits, const RouteTrace& trace, TraceStep& step) {
  if (!logits.is_array() || logits.size() != static_cast<std::size_t>(trace.experts)) {
    throw line.error(fmt::format("row {}: logits holds {} values, expected n_experts = {}", step.rows,
                                 logits.is_array() ? logits.size() : 0, trace.experts));
  }
  for (const json& value : logits) step.logits.push_back(number(line, value, "logits"));
  ++step.rows;
}

void add_line(const Line& line, RouteTrace& trace) {
  if (!line.value.is_object()) throw line.error("expected an object");
  TraceStep step;
  if (const auto layer = line.value.find("layer"); layer != line.value.end()) {
    constexpr int kMostLayers = 1 << 20;
    if (!layer->is_number_integer() || *layer < 0 || *layer >= kMostLayers) {
      throw line.error(
          fmt::format("layer = {}, expected an integer in 0..{}", shown(*layer), kMostLayers - 1));
    }
    step.layer = layer->get<int>();
  }
  const bool has_logits = line.value.contains("logits");
  if (!trace.steps.empty() && has_logits != trace.full_scores) {
    throw line.error("lines with logits and lines with ids are mixed, expected one kind");
  }
  trace.full_scores = has_logits;
  if (has_logits) {
    for (const json& row : list_of(line, "logits")) add_logits(line, row, trace, step);
  } else {
    trace.scoring = routing::Scoring::kSigmoid;
    const json& ids = list_of(line, "ids");
    const json& weights = list_of(line, "w");
    if (!ids.empty() && !ids[0].is_array()) {
      trace.steps_recorded = false;
      add_choice(line, ids, weights, trace, step);
    } else {
      if (ids.size() != weights.size()) {
        throw line.error(fmt::format("ids has {} rows, w has {}", ids.size(), weights.size()));
      }
      for (std::size_t row = 0; row < ids.size(); ++row)
        add_choice(line, ids[row], weights[row], trace, step);
    }
  }
  step.roles.assign(static_cast<std::size_t>(step.rows), routing::RowRole::kDecode);
  if (line.value.contains("decode")) {
    const json& decode = list_of(line, "decode");
    if (decode.size() != step.roles.size()) {
      throw line.error(fmt::format("decode has {} values for {} rows", decode.size(), step.rows));
    }
    for (std::size_t row = 0; row < decode.size(); ++row) {
      if (decode[row] == 0) step.roles[row] = routing::RowRole::kPrefill;
    }
  }
  if (step.rows > 0) trace.steps.push_back(std::move(step));
}

void read_header(const Line& line, RouteTrace& trace) {
  const json& value = line.value;
  if (!value.is_object()) throw line.error("expected a header with n_experts and top_k");
  trace.experts = header_integer(line, "n_experts", routing::kMaxExperts);
  trace.top_k = header_integer(line, "top_k", std::min(trace.experts, routing::kMaxTopK));
  if (const auto model = value.find("model"); model != value.end() && model->is_string())
    trace.model = *model;
  trace.renormalise = header_flag(line, "renormalise");
  trace.ranked = header_flag(line, "ranked");
  if (const auto mode = value.find("mode"); mode != value.end() && *mode != "per_token") {
    throw line.error(
        fmt::format("mode = {}, expected per_token, the one that has the experts of each row", shown(*mode)));
  }
  if (value.value("fused_shared_experts", json(0)) != 0) {
    trace.fused_shared_experts = header_integer(line, "fused_shared_experts", 64);
  }
  if (const auto scaling = value.find("scaling"); scaling != value.end()) {
    trace.scaling = number(line, *scaling, "scaling");
    if (!(trace.scaling > 0.0F && trace.scaling <= 1e6F)) {
      throw line.error(fmt::format("scaling = {}, expected above 0 and at most 1e6", trace.scaling));
    }
  }
  trace.scoring = routing::Scoring::kSoftmax;
  if (const auto name = value.find("scoring"); name != value.end()) {
    const auto known = name->is_string() ? routing::parse_scoring(name->get<std::string>()) : std::nullopt;
    if (!known) throw line.error(fmt::format("scoring = {}, expected the name of a scoring", shown(*name)));
    trace.scoring = *known;
  }
}

}  // namespace

RouteTrace read_route_trace(std::istream& in, std::string_view name) {
  RouteTrace trace;
  std::string text;
  for (std::size_t number = 1; std::getline(in, text); ++number) {
    if (text.empty()) continue;
    Line line{.file = name, .number = number, .value = json::parse(text, nullptr, false)};
    if (line.value.is_discarded()) throw line.error("not JSON, expected one object per line");
    if (trace.experts == 0) {
      read_header(line, trace);
    } else {
      add_line(line, trace);
    }
  }
  if (trace.steps.empty())
    throw input_error("{}: no rows, expected a header line and at least one step", name);
  return trace;
}

RouteTrace read_route_trace(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) throw input_error("{}: cannot open", file.string());
  return read_route_trace(in, file.string());
}

RouteTrace RouteTrace::in_steps_of(int rows) const {
  RouteTrace dealt = *this;
  dealt.steps.clear();
  dealt.steps_recorded = true;
  TraceStep step;
  const auto width = static_cast<std::ptrdiff_t>(experts);
  for (const TraceStep& source : steps) {
    for (int row = 0; row < source.rows; ++row) {
      if (source.roles[static_cast<std::size_t>(row)] != routing::RowRole::kDecode) continue;
      if (step.rows > 0 && step.layer != source.layer) step = {};
      step.layer = source.layer;
      const auto begin = source.logits.begin() + row * width;
      step.logits.insert(step.logits.end(), begin, begin + width);
      if (!source.keys.empty()) {
        const auto keys = source.keys.begin() + row * width;
        step.keys.insert(step.keys.end(), keys, keys + width);
      }
      step.roles.push_back(routing::RowRole::kDecode);
      if (++step.rows == rows) {
        dealt.steps.push_back(std::move(step));
        step = {};
      }
    }
  }
  return dealt;
}

}  // namespace tagalong::tools
