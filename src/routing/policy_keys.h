// The keys of policy strings: name, field, range. Internal to the room.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "routing/routing_policy.h"

namespace tagalong::routing {

struct PolicyKey {
  std::string_view name;
  std::string_view range;  // for messages and help
  // Reads the value into the policy; false if it is no such value or out of range.
  bool (*read)(std::string_view text, RoutingPolicy& policy);
  std::string (*write)(const RoutingPolicy& policy);
};

// In the order to_string() prints them.
std::span<const PolicyKey> policy_keys();

}  // namespace tagalong::routing
