// Any bytes as a recorded trace: refused with an InputError, or steps whose parts fit each other and that
// replay.
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "route_replay.h"

using tagalong::base::InputError;
using tagalong::tools::RouteTrace;

namespace {

void check(const RouteTrace& trace) {
  std::size_t numbers = 0;
  for (const auto& step : trace.steps) {
    const auto expected = static_cast<std::size_t>(step.rows) * static_cast<std::size_t>(trace.experts);
    CHECK(step.rows > 0 && step.layer >= 0 && step.roles.size() == static_cast<std::size_t>(step.rows));
    CHECK(step.logits.size() == expected && (step.keys.empty() || step.keys.size() == expected));
    numbers += expected;
  }
  if (numbers > 1 << 16) return;  // the replay of many is slow and tells nothing new
  for (const char* policy : {"exact", "oea:k0=1", "xshare:budget=64"}) {
    try {
      const auto result = tagalong::tools::replay(trace, tagalong::routing::parse_policy(policy), 2);
      CHECK(result.all.experts <= std::int64_t{trace.experts} * result.all.steps);
    } catch (const InputError&) {
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::istringstream file(std::string(reinterpret_cast<const char*>(data), size));
  try {
    const RouteTrace trace = tagalong::tools::read_route_trace(file, "input");
    CHECK(!trace.steps.empty());
    check(trace);
    check(trace.in_steps_of(2));
  } catch (const InputError&) {
  }
  return 0;
}
