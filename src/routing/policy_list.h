// The list of policies. To add one: a file like oea.cpp, its line in policy_list.cpp, its PolicyKind.
//
// The parser, the help text, the property tests and the replay all run over this list.
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>

#include "routing/routing_policy.h"

namespace tagalong::routing {

struct PolicyStep;

struct PolicyMethod {
  enum class Shape : std::uint8_t {
    kExact,      // touches nothing
    kBaseSet,    // choose() fills the base set
    kShortRows,  // choose() writes how many of its exact experts each decode row keeps
  };

  PolicyKind kind;
  std::string_view name;
  std::string_view summary;                       // one line of help
  std::span<const std::string_view> needed_keys;  // of the policy string
  std::span<const std::string_view> optional_keys;
  int min_rows;  // default of the key
  Shape shape;
  // Whether the policy, with its knobs, is certain to equal exact routing in this step. Then choose() is not
  // called and the exact choice stands, bit for bit.
  bool (*is_exact)(const PolicyStep& step);
  void (*choose)(const PolicyStep& step);
  // An example for tests and help, and the check against a layer; the check may be null.
  std::string_view example;
  void (*check)(const RoutingPolicy& policy, const RouterSpec& spec, std::string_view name);
};

std::span<const PolicyMethod* const> policy_list();
const PolicyMethod& method_of(PolicyKind kind);

}  // namespace tagalong::routing
