// CHECK: the failure kind "bug". It prints the condition, the values and the place, and aborts.
//
// Never used on input: what comes from a file, a flag or the network is answered with base::InputError.
#pragma once

#include <fmt/format.h>

#include <string_view>

namespace tagalong::base {

[[noreturn]] void check_failed(const char* condition, const char* file, int line, std::string_view message);

}  // namespace tagalong::base

// CHECK(condition) or CHECK(condition, "format", values...).
#define CHECK(condition, ...)   \
  (static_cast<bool>(condition) \
       ? static_cast<void>(0)   \
       : ::tagalong::base::check_failed(#condition, __FILE__, __LINE__, fmt::format("" __VA_ARGS__)))
