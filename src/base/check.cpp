#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace tagalong::base {

void check_failed(const char* condition, const char* file, int line, std::string_view message) {
  fmt::print(stderr, "{}:{}: bug: CHECK({}) failed{}{}\n", file, line, condition, message.empty() ? "" : ": ",
             message);
  std::abort();
}

}  // namespace tagalong::base
