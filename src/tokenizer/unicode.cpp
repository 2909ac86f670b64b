#include "tokenizer/unicode.h"

namespace tagalong::tokenizer {
namespace {
#include "tokenizer/unicode_tables.inc"
}  // namespace

const CodePointTable& CodePointTable::instance() {
  static const CodePointTable table;
  return table;
}

CodePointTable::CodePointTable() : entries_(0x110000, 0) {
  for (const ClassRange& range : kClassRanges) {
    for (char32_t c = range.first; c <= range.last; ++c) entries_[c] = range.value;
  }
  mark(kNfcChanges, kNfcChangesBit);
  mark(kNfcOpaque, kNfcOpaqueBit);
  mark(kCompatChanges, kCompatChangesBit);
  mark(kCompatOpaque, kCompatOpaqueBit);
}

void CodePointTable::mark(std::span<const ClassRange> ranges, std::uint8_t bits) {
  for (const ClassRange& range : ranges) {
    for (char32_t c = range.first; c <= range.last; ++c) entries_[c] |= bits;
  }
}

std::span<const ClassRange> classes_added_since_14() { return kAddedSince14; }

std::span<const ClassRange> accents() { return kAccents; }

std::span<const CaseRange> lower_since_14() { return kLowerSince14; }

}  // namespace tagalong::tokenizer
