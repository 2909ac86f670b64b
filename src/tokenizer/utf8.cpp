#include "tokenizer/utf8.h"

#include <simdjson.h>

#include "base/error.h"

namespace tagalong::tokenizer {
namespace {

std::uint8_t byte_at(std::string_view text, std::size_t position) {
  return static_cast<std::uint8_t>(text[position]);
}

enum class Sequence { complete, incomplete, invalid };

struct Scan {
  Sequence kind;
  std::uint32_t length;  // of the character, or of the part of it that is there
};

// One character, or the longest valid start of one, at `position`.
Scan scan(std::string_view text, std::size_t position) {
  const std::uint8_t first = byte_at(text, position);
  if (first < 0x80) return {Sequence::complete, 1};
  if (first < 0xC2 || first > 0xF4) return {Sequence::invalid, 1};
  const std::uint32_t needed = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  // The second byte is what excludes overlong forms, surrogates and values beyond U+10FFFF.
  std::uint8_t low = 0x80;
  std::uint8_t high = 0xBF;
  if (first == 0xE0) low = 0xA0;
  if (first == 0xED) high = 0x9F;
  if (first == 0xF0) low = 0x90;
  if (first == 0xF4) high = 0x8F;
  for (std::uint32_t i = 1; i < needed; ++i) {
    if (position + i >= text.size()) return {Sequence::incomplete, i};
    const std::uint8_t next = byte_at(text, position + i);
    if (next < low || next > high) return {Sequence::invalid, i};
    low = 0x80;
    high = 0xBF;
  }
  return {Sequence::complete, needed};
}

}  // namespace

CodePoint code_point_at(std::string_view valid, std::size_t position) {
  const std::uint32_t first = byte_at(valid, position);
  if (first < 0x80) return {first, 1};
  const auto tail = [&](std::size_t i) {
    return static_cast<std::uint32_t>(byte_at(valid, position + i) & 0x3F);
  };
  if (first < 0xE0) return {(first & 0x1F) << 6 | tail(1), 2};
  if (first < 0xF0) return {(first & 0x0F) << 12 | tail(1) << 6 | tail(2), 3};
  return {(first & 0x07) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3), 4};
}

CodePoint code_point_before(std::string_view valid, std::size_t position) {
  std::size_t start = position - 1;
  while (start > 0 && (byte_at(valid, start) & 0xC0) == 0x80) --start;
  return code_point_at(valid, start);
}

void append_utf8(std::string& out, char32_t code_point) {
  const auto put = [&](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  const std::uint32_t c = code_point;
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6);
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

std::optional<std::size_t> find_invalid_utf8(std::string_view text) {
  if (simdjson::validate_utf8(text.data(), text.size())) return std::nullopt;
  std::size_t position = 0;
  while (position < text.size()) {
    const Scan found = scan(text, position);
    if (found.kind != Sequence::complete) return position;
    position += found.length;
  }
  return std::nullopt;
}

void require_utf8(std::string_view text, std::string_view what) {
  if (const auto fault = find_invalid_utf8(text)) {
    throw base::input_error("{}: invalid UTF-8 at byte {} (0x{:02X})", what, *fault, byte_at(text, *fault));
  }
}

void LossyDecoder::push(std::string_view bytes, std::string& out) {
  std::string joined;
  if (!waiting_.empty()) {
    joined = waiting_;
    joined += bytes;
    waiting_.clear();
    bytes = joined;
  }
  if (simdjson::validate_utf8(bytes.data(), bytes.size())) {
    out += bytes;
    return;
  }
  std::size_t position = 0;
  while (position < bytes.size()) {
    const Scan found = scan(bytes, position);
    if (found.kind == Sequence::incomplete) {
      waiting_ = bytes.substr(position);
      return;
    }
    out += found.kind == Sequence::complete ? bytes.substr(position, found.length) : kReplacementCharacter;
    position += found.length;
  }
}

void LossyDecoder::finish(std::string& out) {
  if (!waiting_.empty()) out += kReplacementCharacter;
  waiting_.clear();
}

}  // namespace tagalong::tokenizer
