#include "server/json_writer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

namespace tagalong::server {
namespace {

std::string as_json(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

TEST(JsonWriter, PutsCommasWhereTheyBelong) {
  JsonWriter json;
  json.begin_object()
      .member("a", 1)
      .key("b")
      .begin_array()
      .value(true)
      .value(nullptr)
      .begin_object()
      .end_object();
  json.end_array().member("c", "x").end_object();
  EXPECT_EQ(json.text(), R"({"a":1,"b":[true,null,{}],"c":"x"})");
}

TEST(JsonWriter, WritesTheShortestFloatThatReadsBack) {
  JsonWriter json;
  json.begin_array().value(0.1F).value(0.1).value(-1.5F).value(0).end_array();
  EXPECT_EQ(json.text(), "[0.1,0.1,-1.5,0]");
  const float third = -1.0F / 3.0F;
  EXPECT_EQ(nlohmann::json::parse(JsonWriter().value(third).text()).get<float>(), third);
}

TEST(JsonWriter, NumbersAreAlwaysFinite) {
  JsonWriter json;
  json.begin_array();
  json.value(-std::numeric_limits<float>::infinity()).value(std::numeric_limits<double>::infinity());
  json.value(std::nanf("")).end_array();
  EXPECT_EQ(json.text(), "[-9999,9999,-9999]");
}

TEST(JsonWriter, EscapesControlCharactersAndQuotes) {
  EXPECT_EQ(as_json("a\"\\\n\r\t\x01\x7F/"), R"("a\"\\\n\r\t\u0001\u007f/")");
  EXPECT_EQ(as_json(std::string_view("\0", 1)), R"("\u0000")");
}

TEST(JsonWriter, KeepsValidUtf8AndReplacesTheRest) {
  EXPECT_EQ(as_json("é€😀"), "\"é€😀\"");
  EXPECT_EQ(as_json("\xF0\x9F\x98"), "\"\uFFFD\"");  // a character cut off
  EXPECT_EQ(as_json("a\xFF\xFE z"), "\"a\uFFFD\uFFFD z\"");
  EXPECT_EQ(as_json("\xED\xA0\x80"), "\"\uFFFD\uFFFD\uFFFD\"");  // a surrogate
  EXPECT_EQ(as_json("\xC0\x80"), "\"\uFFFD\uFFFD\"");            // overlong
  EXPECT_EQ(as_json("\xE2\x82(\xE2\x82\xAC"), "\"\uFFFD(€\"");
}

TEST(JsonWriter, WhateverTheBytesTheResultParses) {
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    for (int n = std::uniform_int_distribution<int>(0, 12)(random); n > 0; --n) {
      bytes += static_cast<char>(random() % 2 == 0 ? random() % 256 : 0xC0 + random() % 64);
    }
    const auto parsed = nlohmann::json::parse(as_json(bytes), nullptr, false);
    ASSERT_TRUE(parsed.is_string());
  }
}

}  // namespace
}  // namespace tagalong::server
