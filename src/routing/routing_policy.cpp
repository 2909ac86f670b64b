#include "routing/routing_policy.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "routing/policy_keys.h"
#include "routing/policy_list.h"

namespace tagalong::routing {

namespace {

using base::input_error;

const PolicyMethod& find_method(std::string_view text, std::string_view name) {
  for (const PolicyMethod* method : policy_list()) {
    if (method->name == name) return *method;
  }
  std::string known;
  for (const PolicyMethod* method : policy_list())
    known += fmt::format("{}{}", known.empty() ? "" : ", ", method->name);
  throw input_error("policy '{}': no policy '{}', expected one of {}", text, name, known);
}

bool takes(const PolicyMethod& method, std::string_view key) {
  return std::ranges::find(method.needed_keys, key) != method.needed_keys.end() ||
         std::ranges::find(method.optional_keys, key) != method.optional_keys.end();
}

const PolicyKey& find_key(std::string_view text, const PolicyMethod& method, std::string_view name) {
  for (const PolicyKey& key : policy_keys()) {
    if (key.name == name && takes(method, name)) return key;
  }
  std::string known;
  for (const PolicyKey& key : policy_keys()) {
    if (takes(method, key.name)) known += fmt::format("{}{}", known.empty() ? "" : ", ", key.name);
  }
  throw input_error("policy '{}': {} has no key '{}', expected {}", text, method.name, name,
                    known.empty() ? "none" : "one of " + known);
}

RoutingPolicy defaults_of(const PolicyMethod& method) {
  RoutingPolicy policy;
  policy.kind = method.kind;
  policy.min_rows = method.min_rows;
  return policy;
}

}  // namespace

RoutingPolicy parse_policy(std::string_view text) {
  const std::size_t colon = text.find(':');
  const PolicyMethod& method = find_method(text, text.substr(0, colon));
  RoutingPolicy policy = defaults_of(method);
  std::vector<std::string_view> seen;
  std::string_view rest = colon == std::string_view::npos ? std::string_view{} : text.substr(colon + 1);
  while (!rest.empty() || (colon != std::string_view::npos && seen.empty())) {
    const std::size_t comma = rest.find(',');
    const std::string_view pair = rest.substr(0, comma);
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos) {
      throw input_error("policy '{}': '{}', expected key=value", text, pair);
    }
    const PolicyKey& key = find_key(text, method, pair.substr(0, equals));
    const std::string_view value = pair.substr(equals + 1);
    if (std::ranges::find(seen, key.name) != seen.end()) {
      throw input_error("policy '{}': {} is given twice", text, key.name);
    }
    if (!key.read(value, policy)) {
      throw input_error("policy '{}': {} = {}, expected {}", text, key.name, value, key.range);
    }
    seen.push_back(key.name);
    if (comma == std::string_view::npos) break;
    rest = rest.substr(comma + 1);
    if (rest.empty()) throw input_error("policy '{}': ends with a comma, expected key=value", text);
  }
  for (const std::string_view needed : method.needed_keys) {
    if (std::ranges::find(seen, needed) == seen.end()) {
      throw input_error("policy '{}': {} is missing, as in {}", text, needed, method.example);
    }
  }
  return policy;
}

std::string to_string(const RoutingPolicy& policy) {
  const PolicyMethod& method = method_of(policy.kind);
  const RoutingPolicy plain = defaults_of(method);
  std::string text(method.name);
  char separator = ':';
  for (const PolicyKey& key : policy_keys()) {
    const bool needed = std::ranges::find(method.needed_keys, key.name) != method.needed_keys.end();
    if (!takes(method, key.name) || (!needed && key.write(policy) == key.write(plain))) continue;
    text += fmt::format("{}{}={}", separator, key.name, key.write(policy));
    separator = ',';
  }
  return text;
}

void validate(const RoutingPolicy& policy, const RouterSpec& spec, std::string_view name) {
  const PolicyMethod& method = method_of(policy.kind);
  if (takes(method, "k0") && policy.k0 < 1) {
    throw input_error("{}: policy '{}': k0 = {}, expected 1..{}", name, method.name, policy.k0, spec.top_k);
  }
  if (policy.min_rows < 1) {
    throw input_error("{}: policy '{}': min_rows = {}, expected at least 1", name, method.name,
                      policy.min_rows);
  }
  if (method.check != nullptr) method.check(policy, spec, name);
}

int votes_per_row(const RoutingPolicy& policy, int layer, int decode_rows) {
  int votes = policy.k0;
  if (static_cast<std::size_t>(layer) < policy.k0_by_layer.size()) {
    votes = policy.k0_by_layer[static_cast<std::size_t>(layer)];
  }
  for (const RoutingPolicy::K0FromRows& step : policy.k0_by_rows) {
    if (decode_rows >= step.rows) votes = step.k0;
  }
  return votes;
}

}  // namespace tagalong::routing
