#include "tokenizer/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "tokenizer/utf8.h"

namespace tagalong::tokenizer {
namespace {

struct Alphabet {
  std::array<char32_t, 256> character;
  std::array<std::int16_t, 0x144> byte;  // -1: not in the alphabet

  // Printable bytes of Latin-1 stand for themselves; the others take the code points from U+0100 on, in
  // order.
  constexpr Alphabet() : character{}, byte{} {
    for (auto& entry : byte) entry = -1;
    char32_t next = 0x100;
    for (unsigned b = 0; b < 256; ++b) {
      const bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      character[b] = printable ? b : next++;
      byte[character[b]] = static_cast<std::int16_t>(b);
    }
  }
};
constexpr Alphabet kAlphabet;

}  // namespace

std::optional<std::string> bytes_of_alphabet(std::string_view valid_utf8) {
  std::string bytes;
  for (std::size_t at = 0; at < valid_utf8.size();) {
    const CodePoint c = code_point_at(valid_utf8, at);
    if (c.value >= kAlphabet.byte.size() || kAlphabet.byte[c.value] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kAlphabet.byte[c.value]));
    at += c.length;
  }
  return bytes;
}

std::string alphabet_of_bytes(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) append_utf8(text, kAlphabet.character[static_cast<std::uint8_t>(c)]);
  return text;
}

}  // namespace tagalong::tokenizer
