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
  for (const ClassRange& range : kNfcChanges) {
    for (char32_t c = range.first; c <= range.last; ++c) entries_[c] |= kNfcChangesBit;
  }
  for (const ClassRange& range : kNfcOpaque) {
    for (char32_t c = range.first; c <= range.last; ++c) entries_[c] |= kNfcOpaqueBit;
  }
}

std::span<const ClassRange> classes_added_since_14() { return kAddedSince14; }

}  // namespace tagalong::tokenizer
