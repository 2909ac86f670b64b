#include "server/api_keys.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "base/error.h"

namespace tagalong::server {
namespace {

HttpRequest with(std::string name, std::string value) {
  HttpRequest request;
  request.headers.push_back({std::move(name), std::move(value)});
  return request;
}

TEST(ApiKeys, WithoutKeysEveryoneIsLetIn) {
  EXPECT_TRUE(ApiKeys().admit(HttpRequest()));
  EXPECT_TRUE(ApiKeys().admit(with("Authorization", "Bearer ")));
}

TEST(ApiKeys, OneOfTheKeysMustBeShownWhole) {
  const ApiKeys keys({"first-key", "second"});
  EXPECT_TRUE(keys.admit(with("Authorization", "Bearer first-key")));
  EXPECT_TRUE(keys.admit(with("authorization", "bearer second")));
  EXPECT_TRUE(keys.admit(with("X-Api-Key", "second")));
  for (const char* shown :
       {"", "Bearer", "Bearer ", "Bearer first", "Bearer first-key2", "Bearer secondsecond", "first-key",
        "Basic second", "Bearer  second", "Bearer SECOND"}) {
    EXPECT_FALSE(keys.admit(with("Authorization", shown))) << shown;
  }
  EXPECT_FALSE(keys.admit(HttpRequest()));
}

TEST(ApiKeys, AFileHasOneKeyALine) {
  const std::string path = testing::TempDir() + "/tagalong_keys_" + std::to_string(::getpid());
  std::ofstream(path) << "  one \r\n\n\ttwo\nthree";
  const ApiKeys keys = ApiKeys::load(path);
  for (const char* key : {"one", "two", "three"}) EXPECT_TRUE(keys.admit(with("X-Api-Key", key))) << key;
  EXPECT_FALSE(keys.admit(with("X-Api-Key", "")));
  std::ofstream(path) << " \n\n";
  EXPECT_THROW(ApiKeys::load(path), base::InputError);
  EXPECT_THROW(ApiKeys::load(path + "-missing"), base::InputError);
}

}  // namespace
}  // namespace tagalong::server
