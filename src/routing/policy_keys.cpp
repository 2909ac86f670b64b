#include "routing/policy_keys.h"

#include <fmt/format.h>

#include <charconv>
#include <cstddef>
#include <limits>
#include <system_error>

namespace tagalong::routing {

namespace {

template <typename T>
bool read_number(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

template <auto kField, int kLow, int kHigh>
bool read_int(std::string_view text, RoutingPolicy& policy) {
  int value = 0;
  if (!read_number(text, value) || value < kLow || value > kHigh) return false;
  policy.*kField = value;
  return true;
}

// A share: above 0 (or from 0 where kZero), at most 1.
template <auto kField, bool kZero>
bool read_share(std::string_view text, RoutingPolicy& policy) {
  float value = 0.0F;
  if (!read_number(text, value) || !(value <= 1.0F) || !(kZero ? value >= 0.0F : value > 0.0F)) return false;
  policy.*kField = value;
  return true;
}

template <auto kField>
std::string write_value(const RoutingPolicy& policy) {
  return fmt::format("{}", policy.*kField);
}

// body(item) for each piece between slashes; false as soon as one is.
template <typename Body>
bool each_piece(std::string_view text, Body body) {
  while (true) {
    const std::size_t slash = text.find('/');
    if (!body(text.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    text.remove_prefix(slash + 1);
  }
}

bool read_k0_by_layer(std::string_view text, RoutingPolicy& policy) {
  policy.k0_by_layer.clear();
  return each_piece(text, [&](std::string_view piece) {
    int k0 = 0;
    if (!read_number(piece, k0) || k0 < 1 || k0 > kMaxTopK) return false;
    policy.k0_by_layer.push_back(k0);
    return true;
  });
}

std::string write_k0_by_layer(const RoutingPolicy& policy) {
  return fmt::format("{}", fmt::join(policy.k0_by_layer, "/"));
}

bool read_k0_by_rows(std::string_view text, RoutingPolicy& policy) {
  policy.k0_by_rows.clear();
  return each_piece(text, [&](std::string_view piece) {
    const std::size_t colon = piece.find(':');
    RoutingPolicy::K0FromRows step;
    if (colon == std::string_view::npos || !read_number(piece.substr(0, colon), step.rows) ||
        !read_number(piece.substr(colon + 1), step.k0)) {
      return false;
    }
    if (step.rows < 1 || step.k0 < 1 || step.k0 > kMaxTopK) return false;
    if (!policy.k0_by_rows.empty() && step.rows <= policy.k0_by_rows.back().rows) return false;
    policy.k0_by_rows.push_back(step);
    return true;
  });
}

std::string write_k0_by_rows(const RoutingPolicy& policy) {
  std::string text;
  for (const RoutingPolicy::K0FromRows& step : policy.k0_by_rows) {
    text += fmt::format("{}{}:{}", text.empty() ? "" : "/", step.rows, step.k0);
  }
  return text;
}

constexpr PolicyKey kKeys[] = {
    {"k0", "1..64", read_int<&RoutingPolicy::k0, 1, kMaxTopK>, write_value<&RoutingPolicy::k0>},
    {"p", "above 0 and at most 1", read_share<&RoutingPolicy::p, false>, write_value<&RoutingPolicy::p>},
    {"k_max", "0..64, 0 being the model's k", read_int<&RoutingPolicy::k_max, 0, kMaxTopK>,
     write_value<&RoutingPolicy::k_max>},
    {"max_rank", "0..4096, 0 being all experts", read_int<&RoutingPolicy::max_rank, 0, kMaxExperts>,
     write_value<&RoutingPolicy::max_rank>},
    {"budget", "1..4096", read_int<&RoutingPolicy::budget, 1, kMaxExperts>,
     write_value<&RoutingPolicy::budget>},
    {"per_rank", "0..4096, 0 being the fullest rank's votes",
     read_int<&RoutingPolicy::per_rank, 0, kMaxExperts>, write_value<&RoutingPolicy::per_rank>},
    {"top_per_token", "0..64, 0 being all experts", read_int<&RoutingPolicy::top_per_token, 0, kMaxTopK>,
     write_value<&RoutingPolicy::top_per_token>},
    {"drop", "0..4096", read_int<&RoutingPolicy::drop, 0, kMaxExperts>, write_value<&RoutingPolicy::drop>},
    {"k_min", "1..64", read_int<&RoutingPolicy::k_min, 1, kMaxTopK>, write_value<&RoutingPolicy::k_min>},
    {"t", "0..1", read_share<&RoutingPolicy::t, true>, write_value<&RoutingPolicy::t>},
    {"seed", "0..2147483647", read_int<&RoutingPolicy::seed, 0, std::numeric_limits<int>::max()>,
     write_value<&RoutingPolicy::seed>},
    {"min_rows", "1..1048576", read_int<&RoutingPolicy::min_rows, 1, 1 << 20>,
     write_value<&RoutingPolicy::min_rows>},
    {"k0_by_layer", "one 1..64 per layer, as 4/4/3", read_k0_by_layer, write_k0_by_layer},
    {"k0_by_rows", "rows:k0 with rows rising and k0 in 1..64, as 2:6/16:4", read_k0_by_rows,
     write_k0_by_rows},
};

}  // namespace

std::span<const PolicyKey> policy_keys() { return kKeys; }

}  // namespace tagalong::routing
