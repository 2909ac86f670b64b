#include "routing/route_scratch.h"

#include <algorithm>

#include "routing/route_plan.h"

namespace tagalong::routing {

namespace {

template <typename T>
void grow(std::vector<T>& buffer, std::size_t size) {
  if (buffer.size() < size) buffer.resize(size);
}

}  // namespace

RouteScratch::RouteScratch(RouteIsa isa) : kernels(&row_kernels(isa)) {}

void RouteScratch::reserve(int rows, const RouterSpec& spec, const RoutingPolicy& policy) {
  max_rows = std::max(max_rows, rows);
  const auto row_capacity = static_cast<std::size_t>(max_rows);
  const auto expert_capacity = static_cast<std::size_t>(spec.experts);
  const auto padded = static_cast<std::size_t>((spec.experts + kCodeAlign - 1) / kCodeAlign * kCodeAlign);
  widest_row = std::max(widest_row, padded);
  most_choices = std::max(most_choices, static_cast<std::size_t>(std::max(spec.top_k, policy.k_max)));
  most_slots = std::max(most_slots, static_cast<std::size_t>(plan_slots(spec, policy)));
  grow(gathered, row_capacity * most_slots);
  grow(codes, row_capacity * widest_row);
  grow(norms, row_capacity);
  grow(exact_ids, row_capacity * most_choices);
  grow(chosen_counts, row_capacity);
  grow(scores, padded);
  grow(zeros, expert_capacity);
  grow(values, expert_capacity);
  grow(base, expert_set_words(spec.experts));
  grow(spare_set, expert_set_words(spec.experts));
  grow(exact_union, expert_set_words(spec.experts));
  grow(expert_rows, static_cast<std::size_t>(spec.plan_experts()) + 1);
}

}  // namespace tagalong::routing
