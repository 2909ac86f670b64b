// The policies, each defined in the file of its name. In the order of PolicyKind.
#pragma once

#include "routing/policy_list.h"

namespace tagalong::routing {

extern const PolicyMethod kExactMethod;      // exact.cpp
extern const PolicyMethod kOeaMethod;        // oea.cpp
extern const PolicyMethod kOeaBudgetMethod;  // oea_budget.cpp
extern const PolicyMethod kOeaRanksMethod;   // oea_ranks.cpp
extern const PolicyMethod kXshareMethod;     // xshare.cpp
extern const PolicyMethod kLynxMethod;       // lynx.cpp
extern const PolicyMethod kSerMethod;        // ser.cpp
extern const PolicyMethod kTopPMethod;       // top_p.cpp
extern const PolicyMethod kPrunedMethod;     // pruned.cpp
extern const PolicyMethod kRandomSetMethod;  // random_set.cpp

}  // namespace tagalong::routing
