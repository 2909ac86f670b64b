// random-set: a base set as large as OEA's votes would make it, drawn at random. The control that tells what
// the choice of the base set is worth beyond its size.
//
// The draw depends on the seed, the layer and the step alone, never on the order of rows.
#include "base/split_mix.h"
#include "routing/oea.h"
#include "routing/policy_methods.h"

namespace tagalong::routing {

namespace {

constexpr std::string_view kNeeded[] = {"k0"};
constexpr std::string_view kOptional[] = {"seed", "min_rows", "k0_by_layer", "k0_by_rows"};

void choose(const PolicyStep& step) {
  // The seeded part of the base set stays; only what the votes add is drawn.
  const int seeded = count(step.base());
  const ExpertSet before = step.spare_set();
  for (std::size_t w = 0; w < before.size(); ++w) before[w] = step.base()[w];
  vote(step);
  const int size = count(step.base());
  for (std::size_t w = 0; w < step.base().size(); ++w) step.base()[w] = before[w];

  const auto seed = static_cast<std::uint64_t>(step.policy.seed);
  const auto layer = static_cast<std::uint64_t>(step.input.layer);
  base::SplitMix64 random(base::SplitMix64(base::SplitMix64(seed).next() + layer).next() + step.input.step);
  for (int held = seeded; held < size;) {
    // Rejection is cheap: a set close to everything is close to exact, and nobody runs a control for speed.
    const auto id = static_cast<int>(random.next() % static_cast<std::uint64_t>(step.spec.experts));
    if (contains(step.base(), id)) continue;
    insert(step.base(), id);
    ++held;
  }
}

}  // namespace

const PolicyMethod kRandomSetMethod = {
    .kind = PolicyKind::kRandomSet,
    .name = "random-set",
    .summary = "a random base set as large as that of oea (a control)",
    .needed_keys = kNeeded,
    .optional_keys = kOptional,
    .min_rows = 2,
    .shape = PolicyMethod::Shape::kBaseSet,
    .is_exact = votes_everything,
    .choose = choose,
    .example = "random-set:k0=2",
    .check = nullptr,
};

}  // namespace tagalong::routing
