// Values as text: Python's str and repr, and json.dumps.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "tokenizer/jinja/value.h"
#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"

namespace tagalong::tokenizer::jinja {
namespace {

bool is_printable(char32_t c) {
  return c == U' ' || !CodePointTable::instance().is(c, kSpaces | set_of(CharClass::other));
}

std::string repr_string(std::string_view text) {
  const char quote = text.find('\'') != text.npos && text.find('"') == text.npos ? '"' : '\'';
  std::string out(1, quote);
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    const std::uint32_t value = c.value;
    if (value == static_cast<std::uint32_t>(quote) || value == '\\') {
      out += '\\';
      out += static_cast<char>(value);
    } else if (value == '\n') {
      out += "\\n";
    } else if (value == '\r') {
      out += "\\r";
    } else if (value == '\t') {
      out += "\\t";
    } else if (is_printable(c.value)) {
      out += text.substr(at, c.length);
    } else {
      out += value < 0x100     ? fmt::format("\\x{:02x}", value)
             : value < 0x10000 ? fmt::format("\\u{:04x}", value)
                               : fmt::format("\\U{:08x}", value);
    }
    at += c.length;
  }
  return out += quote;
}

bool has_user_text(const Value& value) {
  if (value.is_string()) return !value.as_text().user.empty();
  if (value.is_list()) {
    const auto& items = value.as_list().items;
    return std::any_of(items.begin(), items.end(), has_user_text);
  }
  if (!value.is_dict()) return false;
  const auto& items = value.as_dict().items;
  return std::any_of(items.begin(), items.end(), [](const auto& item) {
    return has_user_text(item.first) || has_user_text(item.second);
  });
}

Text marked(std::string text, const Value& source) {
  return has_user_text(source) ? Text::from_user(text) : Text(text);
}

class JsonWriter {
 public:
  explicit JsonWriter(const JsonStyle& style) : style_(style) {}

  void write(const Value& value, std::size_t level) {
    if (value.is_none()) {
      out += "null";
    } else if (value.is<bool>()) {
      out += value.get<bool>() ? "true" : "false";
    } else if (value.is<std::int64_t>()) {
      out += std::to_string(value.as_int());
    } else if (value.is<double>()) {
      number(value.as_double());
    } else if (value.is_string()) {
      string(value.as_text().bytes);
    } else if (value.is_list()) {
      block('[', ']', value.as_list().items, level, [&](const Value& item) { write(item, level + 1); });
    } else if (value.is_dict()) {
      auto items = value.as_dict().items;
      if (style_.sort_keys) {
        std::stable_sort(items.begin(), items.end(),
                         [](const auto& a, const auto& b) { return compare(a.first, b.first) < 0; });
      }
      block('{', '}', items, level, [&](const auto& item) {
        string(item.first.is_string() ? item.first.as_text().bytes : key(item.first));
        out += style_.key_separator;
        write(item.second, level + 1);
      });
    } else {
      throw base::input_error("tojson: a {} is not JSON", value.type_name());
    }
  }

  std::string out;

 private:
  void number(double value) {
    if (std::isfinite(value)) {
      out += repr(value);
    } else {
      out += std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
    }
  }

  std::string key(const Value& value) const {
    if (value.is_none()) return "null";
    if (value.is<bool>()) return value.get<bool>() ? "true" : "false";
    if (value.is_number()) return repr(value);
    throw base::input_error("tojson: a {} cannot be a key", value.type_name());
  }

  template <typename Items, typename WriteItem>
  void block(char open, char close, const Items& items, std::size_t level, WriteItem&& write_item) {
    out += open;
    bool first = true;
    for (const auto& item : items) {
      if (!first) out += style_.item_separator;
      first = false;
      line(level + 1);
      write_item(item);
    }
    if (!items.empty()) line(level);
    out += close;
  }

  void line(std::size_t level) {
    if (!style_.pretty) return;
    out += '\n';
    for (std::size_t i = 0; i < level; ++i) out += style_.indent;
  }

  void string(std::string_view text) {
    out += '"';
    for (std::size_t at = 0; at < text.size();) {
      const CodePoint c = code_point_at(text, at);
      escape(c.value, text.substr(at, c.length));
      at += c.length;
    }
    out += '"';
  }

  void escape(std::uint32_t c, std::string_view bytes) {
    switch (c) {
      case '"':
        out += "\\\"";
        return;
      case '\\':
        out += "\\\\";
        return;
      case '\n':
        out += "\\n";
        return;
      case '\r':
        out += "\\r";
        return;
      case '\t':
        out += "\\t";
        return;
      case '\f':
        out += "\\f";
        return;
      case '\b':
        out += "\\b";
        return;
      default:
        break;
    }
    if (c >= 0x20 && (c < 0x7F || !style_.ensure_ascii)) {
      out += bytes;
    } else if (c < 0x10000) {
      out += fmt::format("\\u{:04x}", c);
    } else {
      out +=
          fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((c - 0x10000) >> 10), 0xDC00 + ((c - 0x10000) & 0x3FF));
    }
  }

  const JsonStyle& style_;
};

}  // namespace

std::string repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[40];
  const auto shortest = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific);
  const std::string_view digits(buffer, static_cast<std::size_t>(shortest.ptr - buffer));
  const int exponent = std::stoi(std::string(digits.substr(digits.find('e') + 1)));
  if (exponent < -4 || exponent >= 16) return std::string(digits);
  const auto plain = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::fixed);
  std::string text(buffer, plain.ptr);
  return text.find('.') == text.npos ? text + ".0" : text;
}

std::string repr(const Value& value) {
  if (value.is_none()) return "None";
  if (value.is<bool>()) return value.get<bool>() ? "True" : "False";
  if (value.is<std::int64_t>()) return std::to_string(value.as_int());
  if (value.is<double>()) return repr(value.as_double());
  if (value.is_string()) return repr_string(value.as_text().bytes);
  if (value.is_list()) {
    const List& list = value.as_list();
    std::string out(1, list.tuple ? '(' : '[');
    for (std::size_t i = 0; i < list.items.size(); ++i) out += (i > 0 ? ", " : "") + repr(list.items[i]);
    if (list.tuple && list.items.size() == 1) out += ',';
    return out += list.tuple ? ')' : ']';
  }
  if (value.is_dict()) {
    std::string out = "{";
    for (const auto& [key, item] : value.as_dict().items) {
      if (out.size() > 1) out += ", ";
      out += repr(key) + ": " + repr(item);
    }
    return out += '}';
  }
  if (value.is_undefined()) return "Undefined";
  throw base::input_error("a {} cannot be written as text", value.type_name());
}

Text to_text(const Value& value) {
  if (value.is_string()) return value.as_text();
  if (value.is_undefined()) return Text();
  return marked(repr(value), value);
}

Text to_json(const Value& value, const JsonStyle& style) {
  JsonWriter writer(style);
  writer.write(value, 0);
  return marked(std::move(writer.out), value);
}

}  // namespace tagalong::tokenizer::jinja
