#include "server/json_writer.h"

#include <array>
#include <charconv>
#include <cmath>

namespace tagalong::server {
namespace {

constexpr double kClamp = 9999;
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

unsigned char at(std::string_view text, std::size_t i) { return static_cast<unsigned char>(text[i]); }

struct Utf8Step {
  std::size_t bytes;
  bool valid;
};

// The character at text[i], a byte >= 0x80: its length, or of a broken one the length of what could still
// have become a character (the maximal subpart, as the Unicode standard recommends for replacing).
Utf8Step utf8_step(std::string_view text, std::size_t i) {
  const unsigned char lead = at(text, i);
  std::size_t length = 0;
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;   // overlong
    if (lead == 0xED) high = 0x9F;  // surrogates
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;   // overlong
    if (lead == 0xF4) high = 0x8F;  // above U+10FFFF
  } else {
    return {1, false};
  }
  for (std::size_t k = 1; k < length; ++k) {
    if (i + k >= text.size() || at(text, i + k) < low || at(text, i + k) > high) return {k, false};
    low = 0x80;
    high = 0xBF;
  }
  return {length, true};
}

template <typename T>
void append_number(std::string& out, T number) {
  std::array<char, 32> buffer;
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number);
  out.append(buffer.data(), result.ptr);
}

template <typename T>
void append_float(std::string& out, T number) {
  if (!std::isfinite(number)) number = static_cast<T>(number > 0 ? kClamp : -kClamp);  // NaN: -9999
  append_number(out, number);
}

}  // namespace

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const Utf8Step step = at(text, i) < 0x80 ? Utf8Step{1, true} : utf8_step(text, i);
    if (!step.valid) return false;
    i += step.bytes;
  }
  return true;
}

void append_json_string(std::string& out, std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out += '"';
  std::size_t plain = 0;  // start of the run that is copied as it is
  const auto flush = [&](std::size_t end) { out.append(text.substr(plain, end - plain)); };
  for (std::size_t i = 0; i < text.size();) {
    const unsigned char c = at(text, i);
    if (c >= 0x80) {
      const Utf8Step step = utf8_step(text, i);
      if (!step.valid) {
        flush(i);
        out += kReplacement;
        plain = i + step.bytes;
      }
      i += step.bytes;
      continue;
    }
    if (c < 0x20 || c == '"' || c == '\\' || c == 0x7F) {
      flush(i);
      plain = i + 1;
      switch (c) {
        case '"':
          out += "\\\"";
          break;
        case '\\':
          out += "\\\\";
          break;
        case '\n':
          out += "\\n";
          break;
        case '\r':
          out += "\\r";
          break;
        case '\t':
          out += "\\t";
          break;
        default:
          out += "\\u00";
          out += kHex[c >> 4];
          out += kHex[c & 15];
      }
    }
    ++i;
  }
  flush(text.size());
  out += '"';
}

void JsonWriter::separate() {
  if (comma_) out_ += ',';
  comma_ = true;
}

JsonWriter& JsonWriter::open(char bracket) {
  separate();
  out_ += bracket;
  comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  out_ += bracket;
  comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  separate();
  append_json_string(out_, name);
  out_ += ':';
  comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  separate();
  append_json_string(out_, text);
  return *this;
}

JsonWriter& JsonWriter::value(bool b) { return raw(b ? "true" : "false"); }

JsonWriter& JsonWriter::value(float number) {
  separate();
  append_float(out_, number);
  return *this;
}

JsonWriter& JsonWriter::value(double number) {
  separate();
  append_float(out_, number);
  return *this;
}

JsonWriter& JsonWriter::value(std::nullptr_t) { return raw("null"); }

JsonWriter& JsonWriter::integer(std::int64_t number) {
  separate();
  append_number(out_, number);
  return *this;
}

JsonWriter& JsonWriter::raw(std::string_view json) {
  separate();
  out_ += json;
  return *this;
}

}  // namespace tagalong::server
