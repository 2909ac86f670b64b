#include "server/router.h"

#include <gtest/gtest.h>

namespace tagalong::server {
namespace {

Router example() {
  const auto named = [](std::string body) {
    return [body](const RoutedRequest&) -> Reply { return HttpResponse{.body = body}; };
  };
  return Router({{.method = "GET", .path = "/health", .handler = named("health")},
                 {.method = "GET", .path = "/v1/models", .handler = named("list")},
                 {.method = "GET", .path = "/v1/models/{id}", .handler = named("one")},
                 {.method = "POST", .path = "/v1/completions", .handler = named("post")}});
}

TEST(Router, FindsALiteralPathByItsMethod) {
  const Router router = example();
  const auto match = router.match("POST", "/v1/completions");
  ASSERT_NE(match.route, nullptr);
  EXPECT_EQ(match.route->path, "/v1/completions");
}

TEST(Router, APatternTakesTheRestOfThePathWithItsSlashes) {
  const Router router = example();
  const auto match = router.match("GET", "/v1/models/org/name");
  ASSERT_NE(match.route, nullptr);
  EXPECT_EQ(match.tail, "org/name");
  EXPECT_EQ(router.match("GET", "/v1/models/").route, nullptr) << "a name cannot be empty";
}

TEST(Router, HeadFindsTheRouteOfGet) {
  const Router router = example();
  ASSERT_NE(router.match("HEAD", "/health").route, nullptr);
  EXPECT_EQ(router.match("HEAD", "/v1/completions").route, nullptr);
}

TEST(Router, AWrongMethodTellsTheRightOnes) {
  const Router router = example();
  EXPECT_EQ(router.match("DELETE", "/health").allowed, "GET, HEAD, OPTIONS");
  EXPECT_EQ(router.match("GET", "/v1/completions").allowed, "POST, OPTIONS");
  EXPECT_EQ(router.match("GET", "/v1/completions").route, nullptr);
  EXPECT_EQ(router.all_methods(), "GET, HEAD, OPTIONS, POST");
}

TEST(Router, AnUnknownPathHasNoMethods) {
  const Router router = example();
  for (const char* path : {"/", "/healthy", "/HEALTH", "/v1/models2", "/v1/completions/", "*"}) {
    EXPECT_EQ(router.match("GET", path).route, nullptr) << path;
    EXPECT_EQ(router.match("GET", path).allowed, "") << path;
  }
}

}  // namespace
}  // namespace tagalong::server
