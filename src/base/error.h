// The failure kinds that a user can cause: bad input and failed I/O.
//
// Thrown at load, while flags are parsed, or at a request's edge; never from a step of the engine or inside a
// worker of the thread pool. The message is one sentence that names the thing (file, tensor, key, flag), what
// was expected and what was found.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace tagalong::base {

class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// throw input_error("{}: {} tensors, expected {}", file, found, expected);
template <typename... Args>
[[nodiscard]] InputError input_error(fmt::format_string<Args...> format, Args&&... args) {
  return InputError(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace tagalong::base
