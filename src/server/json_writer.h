// Writes JSON text piece by piece: no tree, commas by itself, shortest floats that read back the same.
//
// Whatever it is given, what comes out is valid JSON in valid UTF-8: broken bytes become U+FFFD, infinities
// and NaN become +-9999 (clients compare log probabilities and choke on null). One thread at a time.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tagalong::server {

bool is_utf8(std::string_view text);

// Appends `text` as a JSON string with its quotes.
void append_json_string(std::string& out, std::string_view text);

class JsonWriter {
 public:
  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name);

  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(const std::string& text) { return value(std::string_view(text)); }
  JsonWriter& value(bool b);
  JsonWriter& value(float number);
  JsonWriter& value(double number);
  JsonWriter& value(std::nullptr_t);
  template <std::integral T>
  JsonWriter& value(T number) {
    return integer(static_cast<std::int64_t>(number));
  }
  // Absent is null.
  template <typename T>
  JsonWriter& value(const std::optional<T>& maybe) {
    return maybe ? value(*maybe) : value(nullptr);
  }
  // Text that is JSON already.
  JsonWriter& raw(std::string_view json);

  template <typename T>
  JsonWriter& member(std::string_view name, const T& v) {
    return key(name).value(v);
  }

  const std::string& text() const { return out_; }
  std::string take() { return std::move(out_); }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  JsonWriter& integer(std::int64_t number);
  void separate();

  std::string out_;
  bool comma_ = false;  // the next key or value needs one before it
};

}  // namespace tagalong::server
