// The route table: which method and path lead to which handler. Immutable after construction, safe from any
// thread.
//
// A path is literal, or ends in "{name}", which takes all that is left (a model's name may contain '/').
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "server/exchange.h"
#include "server/http_message.h"

namespace tagalong::server {

// What a handler makes of a request: the answer itself, or what will produce it, called on the server's
// thread.
using Start = std::function<void(const ExchangePtr&)>;
using Reply = std::variant<HttpResponse, Start>;

struct RoutedRequest {
  const HttpRequest& request;  // its body is empty:
  std::string body;
  std::string tail;  // what "{name}" took
};
using RouteHandler = std::function<Reply(const RoutedRequest&)>;

enum class RunsOn {
  kServerThread,  // answers at once
  kWorker,        // parses or tokenises what may be long
};
enum class Access { kOpen, kNeedsKey };

struct Route {
  std::string method;
  std::string path;
  Access access = Access::kNeedsKey;
  RunsOn runs_on = RunsOn::kServerThread;
  RouteHandler handler;
};

class Router {
 public:
  explicit Router(std::vector<Route> routes) : routes_(std::move(routes)) {}

  struct Match {
    const Route* route = nullptr;  // null: see allowed
    std::string tail;
    std::string allowed;  // for Allow: "GET, HEAD, OPTIONS"; empty if no route has the path
  };
  // HEAD finds the route of GET.
  Match match(std::string_view method, std::string_view path) const;
  // For OPTIONS *.
  std::string all_methods() const;

 private:
  std::vector<Route> routes_;
};

}  // namespace tagalong::server
