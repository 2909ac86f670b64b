// What the tests of this room share: the recorded files of tests/golden, unpacked. Test code only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace tagalong::tokenizer {

// A file below tests/golden; one that ends in .xz comes unpacked.
std::string golden_file(std::string_view name);

// qwen3, deepseek_v3, gptoss or storyteller. Loaded once in a process.
const Tokenizer& golden_tokenizer(std::string_view name);
inline constexpr std::string_view kGoldenTokenizers[] = {"qwen3", "deepseek_v3", "gptoss", "storyteller"};

// The strings that all tokenizers were recorded with.
const std::vector<std::string>& golden_strings();
// The strings around an added token, as tests/golden/tokenizer/strings.py makes them.
std::vector<std::string> strings_around(const std::string& token);

std::uint64_t fnv1a(std::string_view bytes);

}  // namespace tagalong::tokenizer
