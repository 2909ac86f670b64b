#include "routing/router_spec.h"

#include <cmath>
#include <cstddef>

#include "base/error.h"

namespace tagalong::routing {

namespace {

using base::input_error;

void validate_range(std::string_view name, std::string_view field, int value, int low, int high) {
  if (value < low || value > high) {
    throw input_error("{}: {} = {}, expected {}..{}", name, field, value, low, high);
  }
}

void validate_groups(const RouterSpec& spec, std::string_view name) {
  validate_range(name, "groups", spec.groups, 1, spec.experts < kMaxGroups ? spec.experts : kMaxGroups);
  if (spec.experts % spec.groups != 0) {
    throw input_error("{}: groups = {}, expected a divisor of experts = {}", name, spec.groups, spec.experts);
  }
  validate_range(name, "topk_groups", spec.topk_groups, 1, spec.groups);
  if (spec.group_score == GroupScore::kSumOfTopTwo && spec.scoring != Scoring::kSigmoid &&
      spec.scoring != Scoring::kSqrtSoftplus && spec.scoring != Scoring::kSoftmax) {
    throw input_error("{}: group_score = sum of top two where the logits are ranked, expected max", name);
  }
  const int group_size = spec.experts / spec.groups;
  if (spec.topk_groups * group_size < spec.top_k) {
    throw input_error("{}: topk_groups = {} leaves {} experts, expected at least top_k = {}", name,
                      spec.topk_groups, spec.topk_groups * group_size, spec.top_k);
  }
  if (spec.topk_groups < spec.groups && spec.group_score == GroupScore::kNone) {
    throw input_error(
        "{}: group_score = none, expected max or sum of top two when topk_groups = {} < groups = {}", name,
        spec.topk_groups, spec.groups);
  }
  if (spec.group_score == GroupScore::kSumOfTopTwo && group_size < 2) {
    throw input_error("{}: group_score = sum of top two with {} expert per group, expected at least 2", name,
                      group_size);
  }
}

void validate_bias(const RouterSpec& spec, std::string_view name) {
  if (spec.correction_bias.empty()) return;
  if (spec.correction_bias.size() != static_cast<std::size_t>(spec.experts)) {
    throw input_error("{}: correction_bias has {} values, expected experts = {}", name,
                      spec.correction_bias.size(), spec.experts);
  }
  if (spec.scoring == Scoring::kTopKThenSoftmax || spec.scoring == Scoring::kSigmoidInput) {
    throw input_error(
        "{}: correction_bias has {} values, expected none where the logits themselves are ranked", name,
        spec.correction_bias.size());
  }
  for (std::size_t i = 0; i < spec.correction_bias.size(); ++i) {
    if (!std::isfinite(spec.correction_bias[i])) {
      throw input_error("{}: correction_bias[{}] = {}, expected a finite number", name, i,
                        spec.correction_bias[i]);
    }
  }
}

void validate_hash_table(const RouterSpec& spec, std::string_view name) {
  const auto k = static_cast<std::size_t>(spec.top_k);
  if (spec.hash_table.size() % k != 0) {
    throw input_error("{}: hash_table has {} ids, expected a multiple of top_k = {}", name,
                      spec.hash_table.size(), spec.top_k);
  }
  for (std::size_t i = 0; i < spec.hash_table.size(); ++i) {
    const std::int32_t id = spec.hash_table[i];
    if (id < 0 || id >= spec.experts) {
      throw input_error("{}: hash_table[{}, {}] = {}, expected 0..{}", name, i / k, i % k, id,
                        spec.experts - 1);
    }
    for (std::size_t j = i - i % k; j < i; ++j) {
      if (spec.hash_table[j] == id) {
        throw input_error("{}: hash_table[{}, {}] = {} twice, expected distinct experts per token", name,
                          i / k, i % k, id);
      }
    }
  }
}

}  // namespace

std::string_view to_string(Scoring scoring) {
  switch (scoring) {
    case Scoring::kSoftmax:
      return "softmax";
    case Scoring::kSigmoid:
      return "sigmoid";
    case Scoring::kSqrtSoftplus:
      return "sqrtsoftplus";
    case Scoring::kTopKThenSoftmax:
      return "topk_then_softmax";
    case Scoring::kSigmoidInput:
      return "sigmoid_input";
  }
  return "";
}

std::optional<Scoring> parse_scoring(std::string_view name) {
  for (const Scoring scoring : {Scoring::kSoftmax, Scoring::kSigmoid, Scoring::kSqrtSoftplus,
                                Scoring::kTopKThenSoftmax, Scoring::kSigmoidInput}) {
    if (name == to_string(scoring)) return scoring;
  }
  return std::nullopt;
}

void validate(const RouterSpec& spec, std::string_view name) {
  validate_range(name, "experts", spec.experts, 1, kMaxExperts);
  validate_range(name, "top_k", spec.top_k, 1, spec.experts < kMaxTopK ? spec.experts : kMaxTopK);
  validate_range(name, "fused_shared_experts", spec.fused_shared_experts, 0, 16);
  if (!(spec.scaling > 0.0F && spec.scaling <= 1e6F)) {
    throw input_error("{}: scaling = {}, expected above 0 and at most 1e6", name, spec.scaling);
  }
  if (spec.scoring == Scoring::kSigmoidInput && spec.renormalise) {
    throw input_error("{}: renormalise = true, expected false for a weight on the expert's input", name);
  }
  validate_groups(spec, name);
  validate_bias(spec, name);
  validate_hash_table(spec, name);
}

}  // namespace tagalong::routing
