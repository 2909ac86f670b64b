// What a row of the batch is, which decides whether it votes and whether a policy may touch it.
#pragma once

#include <cstdint>

namespace tagalong::routing {

enum class RowRole : std::uint8_t {
  kDecode,       // one token of a running sequence: the policy applies
  kPrefill,      // part of a prompt: exact; its experts are loaded anyway and so belong to every base set
  kPinnedExact,  // a decode row whose request asked for exact routing: treated like prefill
  kPadding,      // no token: no entries, no vote, an output of exactly zero
};

}  // namespace tagalong::routing
