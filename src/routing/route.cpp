#include "routing/route.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>

#include "base/check.h"
#include "routing/group_filter.h"
#include "routing/plan_csr.h"
#include "routing/policy_list.h"
#include "routing/policy_step.h"

namespace tagalong::routing {

namespace {

constexpr float kDenominatorGuard = 1e-20F;  // as the reference models add it

std::size_t code_stride(const RouterSpec& spec) {
  return static_cast<std::size_t>((spec.experts + kCodeAlign - 1) / kCodeAlign * kCodeAlign);
}

void check_capacity(const RouteInput& input, const RouterSpec& spec, const RoutingPolicy& policy,
                    const RouteScratch& scratch, const RoutePlan& plan) {
  const std::size_t rows = input.roles.size();
  const auto experts = static_cast<std::size_t>(spec.experts);
  CHECK(input.logits.size() == rows * experts, "{} logits for {} rows of {}", input.logits.size(), rows,
        experts);
  CHECK(input.keys.empty() || input.keys.size() == rows * experts, "{} keys for {} rows of {}",
        input.keys.size(), rows, experts);
  CHECK(rows <= scratch.norms.size() && code_stride(spec) <= scratch.widest_row,
        "{} rows of {} experts in a smaller scratch", rows, experts);
  CHECK(static_cast<std::size_t>(std::max(spec.top_k, policy.k_max)) <= scratch.most_choices, "k_max {}",
        policy.k_max);
  CHECK(rows <= plan.row_counts.size() &&
            rows * static_cast<std::size_t>(plan_slots(spec, policy)) <= plan.entries.size() &&
            static_cast<std::size_t>(spec.plan_experts()) <= plan.active.size(),
        "{} rows of {} experts in a smaller plan", rows, experts);
  CHECK(spec.hash_table.empty() || input.token_ids.size() == rows, "{} token ids for {} rows",
        input.token_ids.size(), rows);
}

// Keys and exact choice of one row. Returns whether a logit is NaN. Where no policy will look at the keys
// again, all rows share the memory of one and it stays in the nearest cache.
bool choose_exact(const PolicyStep& step, int row, bool keep_codes) {
  const RouterSpec& spec = step.spec;
  RouteScratch& scratch = step.scratch;
  const auto r = static_cast<std::size_t>(row);
  const float* logits = step.logits_of(row).data();
  RowNorm& norm = scratch.norms[r];
  norm = RowNorm{};
  if (spec.scoring == Scoring::kSoftmax || spec.scoring == Scoring::kTopKThenSoftmax) {
    norm = scratch.kernels->softmax_norm(logits, spec.experts);
  }
  std::uint32_t* codes = scratch.codes.data() + (keep_codes ? r * code_stride(spec) : 0);
  const float* bias = spec.correction_bias.empty() ? nullptr : spec.correction_bias.data();
  // Sums of two logits do not rank like sums of two scores: such groups need scores as keys, bias or not.
  if (bias == nullptr && spec.group_score == GroupScore::kSumOfTopTwo) bias = scratch.zeros.data();
  const float* ranked = logits;
  if (!step.input.keys.empty()) {
    ranked = step.input.keys.data() + r * static_cast<std::size_t>(spec.experts);
    bias = nullptr;
  }
  const bool nan = scratch.kernels->codes(spec.scoring, ranked, bias, spec.experts, norm, codes);
  std::int32_t* ids = scratch.exact_ids.data() + r * static_cast<std::size_t>(spec.top_k);
  if (!spec.hash_table.empty()) {
    const auto k = static_cast<std::size_t>(spec.top_k);
    const auto token = static_cast<std::size_t>(step.input.token_ids[r]);
    CHECK((token + 1) * k <= spec.hash_table.size(), "token id {}", step.input.token_ids[r]);
    std::copy_n(spec.hash_table.begin() + static_cast<std::ptrdiff_t>(token * k), k, ids);
    return nan;
  }
  if (spec.topk_groups < spec.groups) mask_other_groups(spec, codes);
  const int found = scratch.kernels->top_k(codes, spec.experts, nullptr, spec.top_k, ids);
  CHECK(found == spec.top_k, "{} of {} experts", found, spec.top_k);
  return nan;
}

// The place of an expert in the row's own ranking, 0 for the best.
int rank_of(std::span<const std::uint32_t> codes, int id) {
  const std::uint32_t own = codes[static_cast<std::size_t>(id)];
  int rank = 0;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    rank += static_cast<int>(codes[i] > own || (codes[i] == own && static_cast<int>(i) < id));
  }
  return rank;
}

// The row's best experts of the base set: k_max at most, none beyond max_rank of its own ranking.
int choose_from_base(const PolicyStep& step, int row, std::int32_t* ids) {
  const RoutingPolicy& policy = step.policy;
  const int k_max = policy.k_max == 0 ? step.spec.top_k : policy.k_max;
  const std::uint32_t* codes =
      step.scratch.codes.data() + static_cast<std::size_t>(row) * code_stride(step.spec);
  const int found = step.scratch.kernels->top_k(codes, step.spec.experts, step.base().data(), k_max, ids);
  if (policy.max_rank == 0 || policy.max_rank >= step.spec.experts) return found;
  const std::span<const std::uint32_t> row_codes(codes, static_cast<std::size_t>(step.spec.experts));
  int within = found;
  while (within > 0 && rank_of(row_codes, ids[within - 1]) >= policy.max_rank) --within;
  return within;
}

float sum_of(std::span<const float> scores) {
  float sum = 0.0F;
  for (const float score : scores) sum += score;
  return sum;
}

// Gate mass of rows: of what they chose, and of what they would have chosen exactly. A row of a model that
// renormalises weighs 1, another as much as its scores do.
struct Mass {
  double kept = 0.0;
  double exact = 0.0;
};

// Turns the scores of a row's chosen experts into weights, in place; returns its mass. The exact choice
// itself takes the same steps as any other, so that an untouched row has the bits of exact routing.
Mass weigh(const PolicyStep& step, int row, bool is_exact, std::span<float> weights) {
  const RouterSpec& spec = step.spec;
  const bool renormalise = spec.renormalise || spec.scoring == Scoring::kTopKThenSoftmax;
  const float sum = sum_of(weights);
  const float guarded = sum + kDenominatorGuard;
  float exact_sum = sum;
  if (!is_exact) {
    const std::span<const std::int32_t> exact = step.exact_of(row);
    std::array<float, kMaxTopK> scores;
    scores_of(step, row, exact, std::span(scores).first(exact.size()));
    exact_sum = sum_of(std::span<const float>(scores).first(exact.size()));
    if (!renormalise) {
      // Such a model expects the mass of its exact choice. Bounded, because zero scores times an infinite
      // factor would be NaN.
      const float restore = std::min(exact_sum / guarded, std::numeric_limits<float>::max());
      for (float& weight : weights) weight *= restore;
    }
  }
  for (float& weight : weights) weight = (renormalise ? weight / guarded : weight) * spec.scaling;
  const Mass mass{.kept = static_cast<double>(sum), .exact = static_cast<double>(exact_sum)};
  if (!renormalise) return mass;
  return {.kept = exact_sum > 0.0F ? mass.kept / mass.exact : 1.0, .exact = 1.0};
}

int missing_from(std::span<const std::int32_t> exact, std::span<const std::int32_t> chosen) {
  int missing = 0;
  for (const std::int32_t id : exact)
    missing += static_cast<int>(std::ranges::find(chosen, id) == chosen.end());
  return missing;
}

// Experts of rows that stay exact, and what is resident, are in every base set.
void seed_base(const PolicyStep& step) {
  clear(step.base());
  for (std::size_t w = 0; w < step.input.resident.size() && w < step.base().size(); ++w) {
    step.base()[w] = step.input.resident[w];
  }
  for (int row = 0; row < step.rows; ++row) {
    if (step.is_decode(row) || step.input.roles[static_cast<std::size_t>(row)] == RowRole::kPadding) continue;
    for (const std::int32_t id : step.exact_of(row)) insert(step.base(), id);
  }
}

// The routed experts of each row: exact, from the base set, or the head of the exact ones.
void choose_rows(const PolicyStep& step, PolicyMethod::Shape shape, RoutePlan& plan) {
  const auto slots = static_cast<std::size_t>(plan.slots);
  for (std::size_t r = 0; r < static_cast<std::size_t>(step.rows); ++r) {
    const int row = static_cast<int>(r);
    std::int32_t* ids = plan.row_ids.data() + r * slots;
    std::int32_t used = step.spec.top_k;
    if (step.input.roles[r] == RowRole::kPadding) {
      used = 0;
    } else if (step.is_decode(row) && shape == PolicyMethod::Shape::kBaseSet) {
      used = choose_from_base(step, row, ids);
    } else {
      if (step.is_decode(row) && shape == PolicyMethod::Shape::kShortRows)
        used = step.scratch.chosen_counts[r];
      std::copy_n(step.exact_of(row).begin(), used, ids);
    }
    plan.row_counts[r] = used;
  }
}

// The scores of all chosen experts, where their weights will be. Scores that need no sum over the row are
// computed in one go over all rows: a row alone would leave most of a vector empty.
void score_rows(const PolicyStep& step, RoutePlan& plan) {
  const RouterSpec& spec = step.spec;
  const auto slots = static_cast<std::size_t>(plan.slots);
  const bool by_row = spec.scoring == Scoring::kSoftmax || spec.scoring == Scoring::kTopKThenSoftmax;
  float* gathered = step.scratch.gathered.data();
  for (std::size_t r = 0; r < static_cast<std::size_t>(step.rows); ++r) {
    const float* logits = step.logits_of(static_cast<int>(r)).data();
    const std::size_t begin = r * slots;
    const auto used = static_cast<std::size_t>(plan.row_counts[r]);
    for (std::size_t i = 0; i < used; ++i) gathered[begin + i] = logits[plan.row_ids[begin + i]];
    for (std::size_t i = used; i < slots; ++i) gathered[begin + i] = 0.0F;
    if (!by_row) continue;
    step.scratch.kernels->scores(spec.scoring, gathered + begin, static_cast<int>(used),
                                 step.scratch.norms[r], plan.row_weights.data() + begin);
  }
  if (by_row) return;
  step.scratch.kernels->scores(spec.scoring, gathered,
                               static_cast<int>(static_cast<std::size_t>(step.rows) * slots), RowNorm{},
                               plan.row_weights.data());
}

// Weights, fused shared experts, what is unused, and the statistics of all that.
void weigh_rows(const PolicyStep& step, bool all_exact, RoutePlan& plan) {
  const RouterSpec& spec = step.spec;
  const auto slots = static_cast<std::size_t>(plan.slots);
  Mass mass;
  for (std::size_t r = 0; r < static_cast<std::size_t>(step.rows); ++r) {
    const int row = static_cast<int>(r);
    std::int32_t* ids = plan.row_ids.data() + r * slots;
    float* weights = plan.row_weights.data() + r * slots;
    auto used = static_cast<std::size_t>(plan.row_counts[r]);
    if (step.input.roles[r] != RowRole::kPadding) {
      const std::span<const std::int32_t> chosen(ids, used);
      const bool is_exact =
          all_exact || !step.is_decode(row) || std::ranges::equal(chosen, step.exact_of(row));
      const Mass row_mass = weigh(step, row, is_exact, std::span(weights, used));
      if (step.is_decode(row)) {
        mass.kept += row_mass.kept;
        mass.exact += row_mass.exact;
      }
      if (!is_exact) {
        plan.stats.short_rows += static_cast<int>(used < static_cast<std::size_t>(spec.top_k));
        plan.stats.replaced_slots += missing_from(step.exact_of(row), chosen);
      }
      for (int shared = 0; shared < spec.fused_shared_experts; ++shared, ++used) {
        ids[used] = spec.experts + shared;
        weights[used] = 1.0F;
      }
    }
    plan.row_counts[r] = static_cast<std::int32_t>(used);
    std::fill(ids + used, ids + slots, -1);
    std::fill(weights + used, weights + slots, 0.0F);
  }
  if (mass.exact > 0.0) plan.stats.kept_mass = mass.kept / mass.exact;
}

}  // namespace

void route(const RouteInput& input, const RouterSpec& spec, const RoutingPolicy& policy,
           RouteScratch& scratch, RoutePlan& plan) {
  check_capacity(input, spec, policy, scratch, plan);
  const PolicyMethod& method = method_of(policy.kind);
  const auto rows = static_cast<int>(input.roles.size());
  const auto decode_rows = static_cast<int>(std::ranges::count(input.roles, RowRole::kDecode));
  const PolicyStep step{.input = input,
                        .spec = spec,
                        .policy = policy,
                        .scratch = scratch,
                        .rows = rows,
                        .decode_rows = decode_rows,
                        .votes = std::min(votes_per_row(policy, input.layer, decode_rows), spec.top_k)};

  plan.rows = rows;
  plan.experts = spec.plan_experts();
  plan.slots = plan_slots(spec, policy);
  plan.weight_side = spec.scoring == Scoring::kSigmoidInput ? WeightSide::kInput : WeightSide::kOutput;
  plan.stats = RouteStats{.decode_rows = decode_rows};

  const bool exact =
      decode_rows == 0 || decode_rows < policy.min_rows || !spec.hash_table.empty() || method.is_exact(step);

  const ExpertSet exact_union(scratch.exact_union.data(), expert_set_words(spec.experts));
  clear(exact_union);
  for (int row = 0; row < rows; ++row) {
    if (input.roles[static_cast<std::size_t>(row)] == RowRole::kPadding) continue;
    ++plan.stats.rows;
    plan.stats.nan_rows += static_cast<int>(choose_exact(step, row, !exact));
    for (const std::int32_t id : step.exact_of(row)) insert(exact_union, id);
  }
  plan.stats.experts_exact = count(exact_union);

  if (!exact) {
    seed_base(step);
    method.choose(step);
  }

  choose_rows(step, exact ? PolicyMethod::Shape::kExact : method.shape, plan);
  score_rows(step, plan);
  weigh_rows(step, exact, plan);

  build_csr(plan, scratch.expert_rows);
  const auto active = plan.active_experts();
  plan.stats.experts = static_cast<int>(std::ranges::lower_bound(active, spec.experts) - active.begin());
  if (input.placement != nullptr) {
    plan.stats.fullest_rank_exact = fullest_rank(*input.placement, exact_union);
    clear(step.base());
    for (const std::int32_t id : active.first(static_cast<std::size_t>(plan.stats.experts)))
      insert(step.base(), id);
    plan.stats.fullest_rank = fullest_rank(*input.placement, step.base());
  }
}

void route(std::span<const float> logits, const RouterSpec& spec, const RoutingPolicy& policy,
           std::span<const RowRole> roles, RouteScratch& scratch, RoutePlan& plan) {
  route(RouteInput{.logits = logits, .roles = roles}, spec, policy, scratch, plan);
}

}  // namespace tagalong::routing
