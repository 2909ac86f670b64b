// The byte alphabet of byte-level tokenizers: each byte is written as one printable character.
//
// Pure functions; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tagalong::tokenizer {

// The bytes that a token's text stands for; nothing if a character is outside the alphabet.
std::optional<std::string> bytes_of_alphabet(std::string_view valid_utf8);

// The text in which such bytes are written.
std::string alphabet_of_bytes(std::string_view bytes);

}  // namespace tagalong::tokenizer
