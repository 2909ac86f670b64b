// The post-processors of tokenizer.json: the ids that stand before and after every text.
//
// Plain data; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tokenizer/json_view.h"
#include "tokenizer/string_table.h"

namespace tagalong::tokenizer {

struct PostProcessor {
  std::vector<std::int32_t> prefix;
  std::vector<std::int32_t> suffix;

  // Throws InputError naming an unknown type, or an id that `tokens` does not have.
  static PostProcessor parse(const std::optional<JsonView>& json, const StringTable& tokens);
};

}  // namespace tagalong::tokenizer
