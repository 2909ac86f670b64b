// A request in the engine's hands. Plain data of the engine's thread; all its room is made when it is
// submitted.
#pragma once

#include <cstdint>
#include <vector>

#include "cache/block_pool.h"
#include "engine/request.h"

namespace tagalong::engine {

struct Sequence {
  RequestId id = 0;  // later submissions have higher ids
  Request request;   // its prompt has moved to `tokens`
  TokenCallback callback;
  std::vector<std::int32_t> tokens;  // the prompt, then what was generated
  int prompt_tokens = 0;
  int limit = 0;     // tokens at which it ends for length
  int computed = 0;  // tokens whose cache entries exist
  cache::BlockTable table;
  bool admitted = false;  // has ever run

  int size() const { return static_cast<int>(tokens.size()); }
  int pending() const { return size() - computed; }
  int generated() const { return size() - prompt_tokens; }
  // Only the token it generated last is missing from the cache.
  bool decoding() const { return pending() == 1 && generated() > 0; }
  int blocks() const { return static_cast<int>(table.blocks.size()); }
};

}  // namespace tagalong::engine
