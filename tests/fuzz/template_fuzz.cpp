// Any bytes as a chat template, rendered within small limits: text comes out, or an InputError.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "tokenizer/chat_template.h"

using tagalong::base::InputError;
using tagalong::tokenizer::ChatTemplate;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto context = nlohmann::ordered_json::parse(R"({
    "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "a <x> \u00e9"},
                 {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {"k": [1, 2.5]}}}]}],
    "tools": [{"type": "function", "function": {"name": "f"}}], "add_generation_prompt": true, "bos_token": "<s>", "n": 3})");
  try {
    const auto chat_template = ChatTemplate::parse({reinterpret_cast<const char*>(data), size});
    const auto chat =
        chat_template.render_marked(context, {.now = 0, .max_steps = 200'000, .max_text_bytes = 1 << 20});
    std::size_t covered = 0;
    for (const auto& range : chat.user_text) {
      CHECK(range.begin >= covered && range.begin < range.end && range.end <= chat.text.size());
      covered = range.end;
    }
  } catch (const InputError&) {
  }
  return 0;
}
