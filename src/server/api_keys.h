// The keys that clients must show. Immutable after construction, safe from any thread.
//
// Compares in a time that tells nothing about how much of a key was right. Without keys every client is let
// in, whatever it shows.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "server/http_message.h"

namespace tagalong::server {

class ApiKeys {
 public:
  ApiKeys() = default;
  explicit ApiKeys(std::vector<std::string> keys) : keys_(std::move(keys)) {}
  // One key a line, blanks around it and empty lines ignored. Throws InputError for a file that cannot be
  // read or has no key.
  static ApiKeys load(const std::filesystem::path& file);

  bool empty() const { return keys_.empty(); }
  // "Authorization: Bearer KEY" or "X-Api-Key: KEY".
  bool admit(const HttpRequest& request) const;

 private:
  std::vector<std::string> keys_;
};

}  // namespace tagalong::server
