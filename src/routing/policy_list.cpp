#include "routing/policy_list.h"

#include "base/check.h"
#include "routing/policy_methods.h"

namespace tagalong::routing {

namespace {

constexpr const PolicyMethod* kPolicies[] = {
    &kExactMethod, &kOeaMethod, &kOeaBudgetMethod, &kOeaRanksMethod, &kXshareMethod,
    &kLynxMethod,  &kSerMethod, &kTopPMethod,      &kPrunedMethod,   &kRandomSetMethod,
};

}  // namespace

std::span<const PolicyMethod* const> policy_list() { return kPolicies; }

const PolicyMethod& method_of(PolicyKind kind) {
  const auto index = static_cast<std::size_t>(kind);
  CHECK(index < std::size(kPolicies) && kPolicies[index]->kind == kind, "policy kind {}", index);
  return *kPolicies[index];
}

}  // namespace tagalong::routing
