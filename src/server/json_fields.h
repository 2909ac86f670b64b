// Reads the fields of a JSON object strictly: the right type and range or a 400 that names the field; null is
// the same as absent; at the end, a field that nobody asked for is an error. Never echoes text of the
// request.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace tagalong::server {

using Json = nlohmann::json;

// A request's body. At most 64 levels deep, so that nothing that walks it later can run out of stack. Throws
// ApiException (400).
Json parse_json_body(std::string_view body);

// What a value is, for messages: "a string", "7", "an array".
std::string describe(const Json& value);

class JsonFields {
 public:
  // `path` goes before the names in messages: "stream_options." or "". Throws if `object` is none.
  JsonFields(const Json& object, std::string path);

  // Null if absent. The field counts as known from now on.
  const Json* find(std::string_view name);

  std::optional<bool> boolean(std::string_view name);
  std::optional<double> number(std::string_view name, double least, double most);
  std::optional<std::int64_t> integer(std::string_view name, std::int64_t least, std::int64_t most);
  std::optional<std::string> string(std::string_view name);

  std::string path(std::string_view name) const { return path_ + std::string(name); }

  // Throws for the first field that was never asked for.
  void reject_others() const;

 private:
  const Json& object_;
  std::string path_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace tagalong::server
