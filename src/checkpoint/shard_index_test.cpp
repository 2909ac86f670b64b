#include "checkpoint/shard_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/checkpoint_testing.h"

namespace tagalong::checkpoint {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

ShardIndex index(std::string_view text) { return parse_shard_index(text, "index"); }
std::string refusal_of(std::string_view text) {
  return refusal([&] { index(text); });
}
std::string placing(std::string_view shard) { return fmt::format(R"({{"weight_map":{{"t":"{}"}}}})", shard); }

TEST(ShardIndex, SortsShardsAndTensors) {
  const ShardIndex result = index(
      R"({"metadata":{"total_size":3},"weight_map":{"c":"y.safetensors","a":"x.safetensors","b":"y.safetensors"}})");
  EXPECT_THAT(result.shards, ElementsAre("x.safetensors", "y.safetensors"));
  EXPECT_THAT(result.tensors, ElementsAre(Pair("a", 0), Pair("b", 1), Pair("c", 1)));
}

TEST(ShardIndex, RefusesPathsThatLeaveTheDirectory) {
  for (const char* shard : {"../x.safetensors", "/etc/passwd", "a/x.safetensors", "..", ".", ".hidden", "",
                            R"(a\\x.safetensors)", R"(x\u0000.safetensors)", R"(x\n)"}) {
    EXPECT_THAT(refusal_of(placing(shard)), HasSubstr("index: weight_map: tensor 't': '")) << shard;
    EXPECT_THAT(refusal_of(placing(shard)), HasSubstr("is not a plain file name")) << shard;
  }
  EXPECT_THAT(refusal_of(placing(std::string(256, 'x'))), HasSubstr("is not a plain file name"));
}

TEST(ShardIndex, RefusesWhatIsNoIndex) {
  EXPECT_THAT(refusal_of(""), HasSubstr("index: not valid JSON"));
  EXPECT_THAT(refusal_of(R"({"weight_map":{)"), HasSubstr("index: not valid JSON"));
  EXPECT_THAT(refusal_of(std::string(10000, '[')), HasSubstr("index: not valid JSON"));
  EXPECT_THAT(refusal_of("[]"), HasSubstr("missing object 'weight_map'"));
  EXPECT_THAT(refusal_of("{}"), HasSubstr("missing object 'weight_map'"));
  EXPECT_THAT(refusal_of(R"({"weight_map":[]})"), HasSubstr("missing object 'weight_map'"));
  EXPECT_THAT(refusal_of(R"({"weight_map":{}})"), HasSubstr("'weight_map' is empty"));
  EXPECT_THAT(refusal_of(R"({"weight_map":{"t":1}})"), HasSubstr("the shard of 't' is not a string"));
  EXPECT_THAT(refusal_of(R"({"weight_map":{"t":"x","t":"y"}})"), HasSubstr("tensor 't' occurs twice"));
}

TEST(ShardIndex, RefusesTooManyShards) {
  std::string text = R"({"weight_map":{)";
  for (int i = 0; i <= 4096; ++i) text += fmt::format("{}\"t{}\":\"s{}\"", i == 0 ? "" : ",", i, i);
  EXPECT_THAT(refusal_of(text + "}}"), HasSubstr("more than 4096 shards"));
}

}  // namespace
}  // namespace tagalong::checkpoint
