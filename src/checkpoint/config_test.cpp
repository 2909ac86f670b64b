#include "checkpoint/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/checkpoint_testing.h"

namespace tagalong::checkpoint {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Config config(std::string_view text) { return Config::parse(text, "config.json"); }

TEST(Config, ReadsEveryType) {
  const Config c = config(R"({"model_type":"m","n":-3,"x":0.5,"flag":true,"list":[1,2],"one":7,
                              "words":["a","b"],"inner":{"deep":{"n":4}},"none":null})");
  EXPECT_EQ(c.model_type(), "m");
  EXPECT_EQ(c.integer("n"), -3);
  EXPECT_EQ(c.real("x"), 0.5);
  EXPECT_EQ(c.real("n"), -3.0);
  EXPECT_TRUE(c.boolean("flag"));
  EXPECT_THAT(c.integers("list"), ElementsAre(1, 2));
  EXPECT_THAT(c.integers("one"), ElementsAre(7));
  EXPECT_THAT(c.strings("words"), ElementsAre("a", "b"));
  EXPECT_EQ(c.object("inner").object("deep").integer("n"), 4);
  EXPECT_THAT(c.object("inner").keys(), ElementsAre("deep"));
}

TEST(Config, NullCountsAsAbsent) {
  const Config c = config(R"({"none":null})");
  EXPECT_FALSE(c.has("none"));
  EXPECT_EQ(c.integer_or("none", 5), 5);
  EXPECT_EQ(c.real_or("none", 0.25), 0.25);
  EXPECT_TRUE(c.boolean_or("none", true));
  EXPECT_EQ(c.string_or("none", "silu"), "silu");
  EXPECT_FALSE(c.optional_object("none").has_value());
  EXPECT_TRUE(c.keys().empty());
  EXPECT_EQ(refusal([&] { c.integer("none"); }), "config.json: missing key 'none'");
}

TEST(Config, FallbacksDoNotHideWrongValues) {
  const Config c = config(R"({"n":"5","x":"1","flag":1,"word":false,"inner":[]})");
  EXPECT_EQ(refusal([&] { c.integer_or("n", 5); }),
            "config.json: key 'n': expected an integer, found the string '5'");
  EXPECT_EQ(refusal([&] { c.real_or("x", 1); }),
            "config.json: key 'x': expected a number, found the string '1'");
  EXPECT_EQ(refusal([&] { c.boolean_or("flag", true); }),
            "config.json: key 'flag': expected true or false, found 1");
  EXPECT_EQ(refusal([&] { c.string_or("word", ""); }),
            "config.json: key 'word': expected a string, found false");
  EXPECT_EQ(refusal([&] { c.optional_object("inner"); }),
            "config.json: key 'inner': expected an object, found an array");
}

TEST(Config, MissingKeysAreNamedWithTheirPath) {
  const Config c = config(R"({"a":{"b":{}}})");
  EXPECT_EQ(refusal([&] { c.integer("hidden_size"); }), "config.json: missing key 'hidden_size'");
  EXPECT_EQ(refusal([&] { c.object("a").object("b").string("c"); }), "config.json: missing key 'a.b.c'");
  EXPECT_EQ(refusal([&] { c.object("a").fail("b", "is odd"); }), "config.json: key 'a.b': is odd");
}

TEST(Config, IntegersHaveRanges) {
  const Config c = config(R"({"zero":0,"big":18446744073709551615,"larger":18446744073709551616,"f":8.0,
                              "list":[1,0],"mixed":[1,"x"]})");
  EXPECT_EQ(refusal([&] { c.integer("zero", kDimension); }),
            "config.json: key 'zero': expected an integer from 1 to 2097152, found 0");
  EXPECT_THAT(refusal([&] { c.integer("big"); }), HasSubstr("found 18446744073709551615"));
  EXPECT_THAT(refusal([&] { c.integer("larger"); }),
              HasSubstr("expected an integer, found 1.8446744073709552e+19"));
  EXPECT_THAT(refusal([&] { c.integer("f"); }), HasSubstr("expected an integer, found 8.0"));
  EXPECT_THAT(refusal([&] { c.integers("list", kDimension); }),
              HasSubstr("key 'list[1]': expected an integer from 1"));
  EXPECT_THAT(refusal([&] { c.integers("mixed"); }),
              HasSubstr("key 'mixed[1]': expected an integer, found the"));
  EXPECT_THAT(refusal([&] { c.strings("mixed"); }), HasSubstr("key 'mixed[0]': expected a string, found 1"));
  EXPECT_THAT(refusal([&] { c.strings("zero"); }), HasSubstr("expected an array of strings, found 0"));
  EXPECT_EQ(c.integer("zero", {.min = 0, .max = 0}), 0);
}

TEST(Config, RealsHaveRanges) {
  const Config c = config(R"({"eps":-1e-5})");
  EXPECT_EQ(refusal([&] { c.real("eps", {.min = 0, .max = 1}); }),
            "config.json: key 'eps': expected a number from 0 to 1, found -1e-05");
}

TEST(Config, RopeThetaIsReadFromBothPlaces) {
  EXPECT_EQ(config(R"({"rope_parameters":{"rope_theta":8000000},"rope_theta":1})").rope_theta(), 8e6);
  EXPECT_EQ(config(R"({"rope_parameters":{},"rope_theta":10000.0})").rope_theta(), 1e4);
  EXPECT_EQ(config(R"({"rope_theta":500})").rope_theta(7.0), 500);
  EXPECT_EQ(config("{}").rope_theta(7.0), 7.0);
  EXPECT_EQ(refusal([] { config("{}").rope_theta(); }), "config.json: missing key 'rope_theta'");
  EXPECT_THAT(refusal([] { config(R"({"rope_parameters":{"rope_theta":0}})").rope_theta(); }),
              HasSubstr("key 'rope_parameters.rope_theta': expected a number from 1"));
}

TEST(Config, ACopyOfANestedObjectOutlivesItsParent) {
  std::optional<Config> inner;
  {
    const Config outer = config(R"({"a":{"n":3}})");
    inner = outer.object("a");
  }
  EXPECT_EQ(inner->integer("n"), 3);
}

TEST(Config, RefusesBadText) {
  EXPECT_THAT(refusal([] { config(""); }), HasSubstr("config.json: not valid JSON"));
  EXPECT_THAT(refusal([] { config("[]"); }), HasSubstr("expected an object, found an array"));
  EXPECT_THAT(refusal([] { config("{} x"); }), HasSubstr("not valid JSON: parse error at line 1, column 4"));
  EXPECT_THAT(refusal([] { config("{\"a\":\"\xFF\"}"); }), HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal([] { config(R"({"a":1e999})"); }), HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal([] { config(R"({"a":NaN})"); }), HasSubstr("not valid JSON"));
  EXPECT_EQ(refusal([] { config(R"({"a":{"k":1,"k":2}})"); }), "config.json: key 'k' occurs twice");
  EXPECT_EQ(config(R"({"a":{"k":1},"b":{"k":2}})").object("b").integer("k"), 2);
}

TEST(Config, RefusesDeepNesting) {
  const std::string deep = R"({"a":)" + std::string(100000, '[') + std::string(100000, ']') + "}";
  EXPECT_EQ(refusal([&] { config(deep); }), "config.json: nested deeper than 64 levels");
}

TEST(Config, LoadNamesTheFile) {
  const TestFolder folder;
  EXPECT_THAT(refusal([&] { Config::load(folder.path()); }),
              HasSubstr("config.json: cannot open: No such file"));
  folder.write("config.json", R"({"model_type":3})");
  EXPECT_THAT(refusal([&] { Config::load(folder.path()).model_type(); }),
              HasSubstr("config.json: key 'model_type': expected a string, found 3"));
}

}  // namespace
}  // namespace tagalong::checkpoint
