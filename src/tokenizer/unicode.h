// The character classes of the reference implementation.
//
// The tables are measured from that implementation (unicode_tables.inc), because its Unicode versions are not
// those of the C libraries at hand, and ids must not depend on the distribution. Immutable after first use:
// any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tagalong::tokenizer {

// The numbers are those of unicode_tables.inc.
enum class CharClass : std::uint8_t {
  other = 0,
  upper = 1,         // Lu
  lower = 2,         // Ll
  title = 3,         // Lt
  modifier = 4,      // Lm
  other_letter = 5,  // Lo
  mark = 6,          // M
  digit = 7,         // Nd
  other_number = 8,  // Nl, No
  punctuation = 9,   // P
  symbol = 10,       // S
  space = 11,        // White_Space; U+180E is not one
};

struct ClassRange {
  char32_t first;
  char32_t last;
  std::uint8_t value;
};

// Consecutive characters whose lower case is consecutive too.
struct CaseRange {
  char32_t first;
  char32_t last;
  char32_t lower;  // of the first
};

// A set of classes: one test instead of many comparisons.
using ClassSet = std::uint16_t;
constexpr ClassSet set_of(CharClass c) { return static_cast<ClassSet>(1u << static_cast<unsigned>(c)); }
inline constexpr ClassSet kLetters = set_of(CharClass::upper) | set_of(CharClass::lower) |
                                     set_of(CharClass::title) | set_of(CharClass::modifier) |
                                     set_of(CharClass::other_letter);
inline constexpr ClassSet kNumbers = set_of(CharClass::digit) | set_of(CharClass::other_number);
inline constexpr ClassSet kMarks = set_of(CharClass::mark);
inline constexpr ClassSet kSpaces = set_of(CharClass::space);
inline constexpr ClassSet kPunctuation = set_of(CharClass::punctuation);
inline constexpr ClassSet kSymbols = set_of(CharClass::symbol);

class CodePointTable {
 public:
  static const CodePointTable& instance();

  CharClass class_of(char32_t c) const { return static_cast<CharClass>(entry(c) & kClassBits); }
  bool is(char32_t c, ClassSet set) const { return (set >> (entry(c) & kClassBits) & 1) != 0; }
  // NFC may change the character, or join it with what stands before it.
  bool nfc_may_change(char32_t c) const { return (entry(c) & kNfcChangesBit) != 0; }
  // A starter to the reference, a mark to the library: the library must not see it.
  bool nfc_opaque(char32_t c) const { return (entry(c) & kNfcOpaqueBit) != 0; }
  // The same for NFD, NFKC and NFKD together.
  bool compat_may_change(char32_t c) const { return (entry(c) & kCompatChangesBit) != 0; }
  bool compat_opaque(char32_t c) const { return (entry(c) & kCompatOpaqueBit) != 0; }

 private:
  static constexpr std::uint8_t kClassBits = 0x0F;
  static constexpr std::uint8_t kNfcChangesBit = 0x10;
  static constexpr std::uint8_t kNfcOpaqueBit = 0x20;
  static constexpr std::uint8_t kCompatChangesBit = 0x40;
  static constexpr std::uint8_t kCompatOpaqueBit = 0x80;
  CodePointTable();
  void mark(std::span<const ClassRange> ranges, std::uint8_t bits);
  std::uint8_t entry(char32_t c) const { return entries_[c]; }

  std::vector<std::uint8_t> entries_;  // one for each code point
};

// What has joined a class since Unicode 14, the version that PCRE2 10.42 knows.
std::span<const ClassRange> classes_added_since_14();

// The characters that StripAccents leaves out.
std::span<const ClassRange> accents();

// Lower case that Unicode has given since version 14, which utf8proc 2.8 knows.
std::span<const CaseRange> lower_since_14();

}  // namespace tagalong::tokenizer
