#include "server/router.h"

#include <optional>

namespace tagalong::server {
namespace {

// What a pattern's "{name}" takes of the path; nothing if the path is another.
std::optional<std::string_view> take(std::string_view pattern, std::string_view path) {
  const std::size_t brace = pattern.find('{');
  if (brace == std::string_view::npos) {
    if (path != pattern) return std::nullopt;
    return std::string_view{};
  }
  if (!path.starts_with(pattern.substr(0, brace)) || path.size() == brace) return std::nullopt;
  return path.substr(brace);
}

// Adds a method, and what comes with it, once.
void allow(std::string& list, std::string_view method) {
  const auto add = [&](std::string_view name) {
    if (list.find(name) != std::string::npos) return;
    if (!list.empty()) list += ", ";
    list += name;
  };
  add(method);
  if (method == "GET") add("HEAD");
  add("OPTIONS");
}

}  // namespace

Router::Match Router::match(std::string_view method, std::string_view path) const {
  const std::string_view wanted = method == "HEAD" ? "GET" : method;
  Match match;
  for (const Route& route : routes_) {
    const auto tail = take(route.path, path);
    if (!tail) continue;
    allow(match.allowed, route.method);
    if (!match.route && route.method == wanted) {
      match.route = &route;
      match.tail = *tail;
    }
  }
  return match;
}

std::string Router::all_methods() const {
  std::string list;
  for (const Route& route : routes_) allow(list, route.method);
  return list;
}

}  // namespace tagalong::server
