// How one MoE layer of a model routes: what the model's config and weights say, and nothing of the
// operator's.
//
// Filled in once by the model file, checked once by validate(), then read by any number of threads. The
// routing code trusts a validated spec and never looks at the model's name.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace tagalong::routing {

// The most experts and slots the selection code is built for. Packed masks and scratch rows rely on them.
inline constexpr int kMaxExperts = 4096;
inline constexpr int kMaxTopK = 64;
inline constexpr int kMaxGroups = 64;

enum class Scoring : std::uint8_t {
  kSoftmax,          // softmax over all experts
  kSigmoid,          // 1 / (1 + exp(-l))
  kSqrtSoftplus,     // sqrt(log(1 + exp(l)))
  kTopKThenSoftmax,  // top-k of the logits, then softmax over those k: always renormalised
  kSigmoidInput,     // top-k of the logits; sigmoid(l) multiplies the expert's input, not its output
};

// The score of a group of experts, when only the best `topk_groups` of `groups` may be used by a row.
enum class GroupScore : std::uint8_t {
  kNone,         // one group
  kMax,          // its best key
  kSumOfTopTwo,  // the sum of its two best keys
};

struct RouterSpec {
  Scoring scoring = Scoring::kSoftmax;
  int experts = 0;  // routed experts, E
  int top_k = 0;    // routed slots per token, k
  int groups = 1;
  int topk_groups = 1;
  GroupScore group_score = GroupScore::kNone;
  bool renormalise = true;  // divide by the sum over the chosen experts (+ 1e-20)
  // Multiplies the routed sum; the plan's weights carry it, so nobody else may apply it.
  float scaling = 1.0F;
  // Empty or [experts], fp32 from the file to the comparison. Added to the score for the choice only.
  std::vector<float> correction_bias{};
  // Empty or [vocabulary, top_k]: expert ids looked up by token id in place of a choice. Such a layer is
  // exact under every policy: its ids were trained as they are, and there is no ranking to tag along by.
  std::vector<std::int32_t> hash_table{};
  // Shared experts that ride in the same grouped product as ids experts, experts + 1, ...: one more entry per
  // row each, with weight exactly 1.
  int fused_shared_experts = 0;

  // Experts the plan numbers: the routed ones and the fused shared ones.
  int plan_experts() const { return experts + fused_shared_experts; }
};

// "softmax", "sigmoid", "sqrtsoftplus", "topk_then_softmax", "sigmoid_input".
std::string_view to_string(Scoring scoring);
std::optional<Scoring> parse_scoring(std::string_view name);

// Throws base::InputError naming `name` (the layer), the field, its value and the range.
void validate(const RouterSpec& spec, std::string_view name);

}  // namespace tagalong::routing
