// The policies, each defined in the file of its name. In the order of PolicyKind.
#pragma once

#include "routing/policy_list.h"

namespace tagalong::routing {

extern const PolicyMethod kExactMethod;  // exact.cpp
extern const PolicyMethod kOeaMethod;    // oea.cpp

}  // namespace tagalong::routing
