// What the operator (or a request) asks of routing, as one value: exact, OEA, or one of its kin.
//
// Built from a string such as "oea:k0=4,min_rows=4"; checked when built and once more against each layer's
// RouterSpec. Copyable, comparable, never changed by routing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "routing/router_spec.h"

namespace tagalong::routing {

enum class PolicyKind : std::uint8_t {
  kExact,
  kOea,        // vote k0, tag along
  kOeaBudget,  // OEA's votes, then the most wanted experts up to a budget
  kOeaRanks,   // OEA's votes, then every rank filled to the level of the fullest
  kXshare,     // the experts with the largest batch-summed score
  kLynx,       // the exact union without its least used experts
  kSer,        // an expert is kept while its score is not far below the row's best
  kTopP,       // the smallest head of the exact choice that holds a share of the score
  kPruned,     // the k0 best alone: a control
  kRandomSet,  // a random base set of OEA's size: a control
};

struct RoutingPolicy {
  // From `rows` decode rows on, vote k0 experts per row.
  struct K0FromRows {
    int rows = 0;
    int k0 = 0;
    bool operator==(const K0FromRows&) const = default;
  };

  PolicyKind kind = PolicyKind::kExact;
  int k0 = 0;             // experts each decode row votes into the base set, or keeps
  float p = 1.0F;         // a row stops once its experts hold this share of its score; 1 is off
  int k_max = 0;          // experts a row may use in all; 0 is the model's k
  int max_rank = 0;       // how deep in its own ranking a row may look for a base expert; 0 is all the way
  int budget = 0;         // experts of the base set, those of exact rows and resident ones included
  int per_rank = 0;       // experts of the base set on each rank; 0 is what the votes put on the fullest
  int top_per_token = 0;  // experts of a row whose scores count towards the batch's; 0 is all
  int drop = 0;           // experts to leave out of the union
  int k_min = 0;          // experts a row keeps whatever their scores
  float t = 0.0F;         // least score of a kept expert, as a share of the row's best; 0 is off
  int seed = 0;           // of the random base set
  int min_rows = 1;       // with fewer decode rows in the step, route exactly
  std::vector<int> k0_by_layer{};        // k0 of MoE layer 0, 1, ...; beyond its end k0 holds
  std::vector<K0FromRows> k0_by_rows{};  // ascending in rows; below its first k0 (by layer) holds

  bool operator==(const RoutingPolicy&) const = default;
};

// Throws base::InputError naming the policy, the key, the value and the range.
RoutingPolicy parse_policy(std::string_view text);

// The shortest string that parse_policy() turns back into this value.
std::string to_string(const RoutingPolicy& policy);

// Whether this policy can be used with this layer (k0 within k, a budget not below k, ...).
// Throws base::InputError naming `name` (the layer), the key, the value and the range.
void validate(const RoutingPolicy& policy, const RouterSpec& spec, std::string_view name);

// The votes per row that hold for one MoE layer (counted from 0) and a number of decode rows.
int votes_per_row(const RoutingPolicy& policy, int layer, int decode_rows);

}  // namespace tagalong::routing
