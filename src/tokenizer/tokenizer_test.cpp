// Small tokenizers, made for one rule each, and everything that is wrong with a file or a text.
#include "tokenizer/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "base/error.h"
#include "tokenizer/golden_testing.h"
#include "tokenizer/stream_decoder.h"
#include "tokenizer/tokenizer_config.h"
#include "tokenizer/tokenizer_parts.h"

namespace tagalong::tokenizer {
namespace {

using Json = nlohmann::ordered_json;
using Ids = std::vector<std::int32_t>;
using testing::ElementsAre;
using testing::HasSubstr;

// a, b, c, "ab", "abc", a space and an unknown token.
Json small() {
  return Json::parse(R"({
    "added_tokens": [],
    "normalizer": null, "pre_tokenizer": null, "post_processor": null,
    "decoder": {"type": "Fuse"},
    "model": {"type": "BPE", "unk_token": "?",
      "vocab": {"?": 0, "a": 1, "b": 2, "c": 3, "ab": 4, "abc": 5, " ": 6},
      "merges": ["a b", "ab c"]}})");
}

Tokenizer load(const Json& json) { return Tokenizer::from_json(json.dump(), "t"); }

// What loading says, after `change` was made to the small tokenizer.
std::string refusal(const std::function<void(Json&)>& change) {
  Json json = small();
  change(json);
  try {
    load(json);
  } catch (const base::InputError& error) {
    return error.what();
  }
  return "loaded";
}

Json added(const std::string& content, int id, const Json& flags = Json::object()) {
  Json token = {{"content", content}, {"id", id}, {"special", false}, {"normalized", false}};
  token.update(flags);
  return token;
}

TEST(Tokenizer, MergesByRankAndFromTheLeft) {
  const Tokenizer tokenizer = load(small());
  EXPECT_THAT(tokenizer.encode("abcab a"), ElementsAre(5, 4, 6, 1));
  EXPECT_EQ(tokenizer.vocab_size(), 7);
  EXPECT_EQ(tokenizer.token_id("ab"), 4);
  EXPECT_EQ(tokenizer.token_id("x"), std::nullopt);
  EXPECT_THAT(tokenizer.encode(""), ElementsAre());
}

TEST(Tokenizer, UnknownCharactersBecomeTheUnknownToken) {
  Json json = small();
  EXPECT_THAT(load(json).encode("xéa"), ElementsAre(0, 0, 1));
  json["model"]["fuse_unk"] = true;
  EXPECT_THAT(load(json).encode("xéa"), ElementsAre(0, 1));
  EXPECT_EQ(load(json).encode_with_offsets("xéa")[0].range, (ByteRange{0, 3}));
  json["model"]["unk_token"] = nullptr;
  EXPECT_THROW(load(json).encode("x"), base::InputError);
}

TEST(Tokenizer, IgnoreMergesTakesAWholePieceFromTheVocabulary) {
  Json json = small();
  json["model"]["vocab"]["ca"] = 7;
  EXPECT_THAT(load(json).encode("ca"), ElementsAre(3, 1));
  json["model"]["ignore_merges"] = true;
  EXPECT_THAT(load(json).encode("ca"), ElementsAre(7));
}

TEST(Tokenizer, ByteFallbackWritesBytesAndReadsThem) {
  Json json = small();
  json["model"]["byte_fallback"] = true;
  json["decoder"] = {{"type", "ByteFallback"}};
  int id = 10;
  for (const char* byte : {"<0xC3>", "<0xA9>", "<0xE2>"}) json["model"]["vocab"][byte] = id++;
  const Tokenizer tokenizer = load(json);
  EXPECT_THAT(tokenizer.encode("aéa"), ElementsAre(1, 10, 11, 1));
  // E2 82 AC: not all bytes have a token.
  EXPECT_THAT(tokenizer.encode("€"), ElementsAre(0));
  EXPECT_EQ(tokenizer.decode(Ids{1, 10, 11, 1}), "aéa");
  // One U+FFFD for each byte of a run that is not valid.
  EXPECT_EQ(tokenizer.decode(Ids{10, 11, 12, 1}), "\uFFFD\uFFFD\uFFFDa");
  EXPECT_EQ(tokenizer.token_bytes(10), "\xC3");
}

// The pipeline of Llama 2 and Mixtral.
TEST(Tokenizer, SentencePieceStyle) {
  Json json = small();
  json["model"]["vocab"]["\u2581"] = 7;
  json["model"]["vocab"]["\u2581a"] = 8;
  json["model"]["vocab"]["<s>"] = 9;
  json["model"]["merges"].push_back("\u2581 a");
  json["normalizer"] = Json::parse(R"({"type": "Sequence", "normalizers": [
      {"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]})");
  json["decoder"] = Json::parse(R"({"type": "Sequence", "decoders": [
      {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
      {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})");
  json["post_processor"] = Json::parse(R"({"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
      "special_tokens": {"<s>": {"id": "<s>", "ids": [9], "tokens": ["<s>"]}}})");
  json["added_tokens"] = {added("<s>", 9, {{"special", true}})};
  const Tokenizer tokenizer = load(json);
  EXPECT_THAT(tokenizer.encode("a ab"), ElementsAre(9, 8, 7, 4));
  EXPECT_THAT(tokenizer.encode("a ab", {.add_special_tokens = false}), ElementsAre(8, 7, 4));
  EXPECT_EQ(tokenizer.decode(Ids{9, 8, 7, 4}, {.skip_special = true}), "a ab");
  EXPECT_EQ(tokenizer.decode(Ids{9, 8, 7, 4}), "<s> a ab");
  EXPECT_EQ(tokenizer.decode(Ids{7, 7, 4}), " ab");
  const auto tokens = tokenizer.encode_with_offsets("a ab", {.add_special_tokens = false});
  EXPECT_EQ(tokens[0].range, (ByteRange{0, 1}));
  EXPECT_EQ(tokens[1].range, (ByteRange{1, 2}));
  EXPECT_EQ(tokens[2].range, (ByteRange{2, 4}));
}

TEST(Tokenizer, MetaspaceReplacesAndSplits) {
  Json json = small();
  json["model"]["vocab"]["\u2581"] = 7;
  json["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "first"}, {"split", true}};
  json["decoder"] = {
      {"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "first"}, {"split", true}};
  json["added_tokens"] = {added("<x>", 8)};
  EXPECT_THAT(load(json).encode("ab a<x>b"), ElementsAre(7, 4, 7, 1, 8, 2));
  EXPECT_EQ(load(json).decode(Ids{7, 4, 7, 1}), "ab a");
  json["pre_tokenizer"]["prepend_scheme"] = "always";
  EXPECT_THAT(load(json).encode("a<x>b"), ElementsAre(7, 1, 8, 7, 2));
  json["pre_tokenizer"]["prepend_scheme"] = "never";
  EXPECT_THAT(load(json).encode("a"), ElementsAre(1));
}

TEST(Tokenizer, SplitBehaviours) {
  const auto pieces = [](const char* behavior, bool invert) {
    Json json = small();
    json["pre_tokenizer"] = {
        {"type", "Split"}, {"pattern", {{"String", "b"}}}, {"behavior", behavior}, {"invert", invert}};
    return load(json).encode("abcab");
  };
  EXPECT_THAT(pieces("Isolated", false), ElementsAre(1, 2, 3, 1, 2));
  EXPECT_THAT(pieces("Removed", false), ElementsAre(1, 3, 1));
  EXPECT_THAT(pieces("Removed", true), ElementsAre(2, 2));
  EXPECT_THAT(pieces("MergedWithPrevious", false), ElementsAre(4, 3, 4));
  EXPECT_THAT(pieces("MergedWithNext", false), ElementsAre(1, 2, 3, 1, 2));
}

TEST(Tokenizer, AddedTokensAreFoundFirstAndTheLongestWins) {
  Json json = small();
  json["added_tokens"] = {added("<x>", 7), added("<x>b", 8), added("  ", 9)};
  const Tokenizer tokenizer = load(json);
  EXPECT_THAT(tokenizer.encode("a<x>a<x>b"), ElementsAre(1, 7, 1, 8));
  // Control tokens stay text on demand; runs of blanks are no control tokens.
  EXPECT_THAT(tokenizer.encode("<x>  ", {.match_special = false}), ElementsAre(0, 0, 0, 9));
}

TEST(Tokenizer, FlagsOfAddedTokens) {
  Json json = small();
  json["added_tokens"] = {added("L", 7, {{"lstrip", true}}), added("R", 8, {{"rstrip", true}}),
                          added("W", 9, {{"single_word", true}}), added("S", 10, {{"special", true}})};
  const Tokenizer tokenizer = load(json);
  EXPECT_THAT(tokenizer.encode("a  L a"), ElementsAre(1, 7, 6, 1));
  EXPECT_THAT(tokenizer.encode("a R  a"), ElementsAre(1, 6, 8, 1));
  EXPECT_THAT(tokenizer.encode("W aW W"), ElementsAre(9, 6, 1, 0, 6, 9));
  EXPECT_TRUE(tokenizer.is_special(10));
  EXPECT_FALSE(tokenizer.is_special(9));
  EXPECT_EQ(tokenizer.decode(Ids{1, 10, 9}, {.skip_special = true}), "aW");
}

TEST(Tokenizer, NormalizedTokensAreFoundInNormalizedText) {
  Json json = small();
  json["normalizer"] = {{"type", "NFC"}};
  json["added_tokens"] = {added("é", 7, {{"normalized", true}}), added("ü", 8, {{"normalized", false}})};
  const Tokenizer tokenizer = load(json);
  EXPECT_THAT(tokenizer.encode("ae\u0301"), ElementsAre(1, 7));
  EXPECT_EQ(tokenizer.encode_with_offsets("ae\u0301")[1].range, (ByteRange{1, 4}));
  EXPECT_THAT(tokenizer.encode("u\u0308"), ElementsAre(0));
}

TEST(Tokenizer, UserTextMatchesNoControlToken) {
  Json json = small();
  json["added_tokens"] = {added("<x>", 7)};
  const Tokenizer tokenizer = load(json);
  const ByteRange user[] = {{3, 6}};
  EXPECT_THAT(tokenizer.encode("<x><x><x>", {.user_text = user}), ElementsAre(7, 0, 0, 0, 7));
  // Half of it is the user's.
  const ByteRange half[] = {{2, 3}};
  EXPECT_THAT(tokenizer.encode("<x>", {.user_text = half}), ElementsAre(0, 0, 0));
}

TEST(Tokenizer, ManyThreadsShareOne) {
  const Tokenizer& tokenizer = golden_tokenizer("qwen3");
  const std::string text = golden_strings()[2500] + " shared by threads";
  const auto expected = tokenizer.encode(text);
  std::vector<std::thread> threads;
  std::atomic<int> same = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 200; ++j) same += tokenizer.encode(text) == expected ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(same, 800);
}

TEST(StreamDecoder, HoldsBackHalfACharacter) {
  const Tokenizer& tokenizer = golden_tokenizer("storyteller");
  const auto ids = tokenizer.encode("😀");
  ASSERT_GT(ids.size(), 1u);
  StreamDecoder decoder(tokenizer);
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) EXPECT_EQ(decoder.push(ids[i]), "");
  EXPECT_EQ(decoder.push(ids.back()), "😀");
  EXPECT_EQ(decoder.push(ids.front()), "");
  EXPECT_EQ(decoder.finish(), "\uFFFD");
  EXPECT_EQ(decoder.push(ids.front()), "");
  EXPECT_EQ(decoder.push(*tokenizer.token_id("a")), "\uFFFDa");
}

TEST(BadTokenizer, NamesWhatItDoesNotKnow) {
  EXPECT_EQ(refusal([](Json& j) {
              j["normalizer"] = {{"type", "Frob"}};
            }),
            "t.normalizer: unknown normalizer \"Frob\"");
  EXPECT_EQ(refusal([](Json& j) {
              j["pre_tokenizer"] = {{"type", "Frob"}};
            }),
            "t.pre_tokenizer: unknown pre_tokenizer \"Frob\"");
  EXPECT_EQ(refusal([](Json& j) {
              j["post_processor"] = {{"type", "Frob"}};
            }),
            "t.post_processor: unknown post_processor \"Frob\"");
  EXPECT_EQ(refusal([](Json& j) {
              j["decoder"] = {{"type", "Frob"}};
            }),
            "t.decoder: unknown decoder \"Frob\"");
  EXPECT_EQ(refusal([](Json& j) { j["model"]["type"] = "WordPiece"; }),
            "t.model: model \"WordPiece\" is not supported, expected \"BPE\"");
  EXPECT_EQ(refusal([](Json& j) {
              j["pre_tokenizer"] = Json::parse(R"({"type": "Sequence", "pretokenizers":
              [{"type": "Digits"}, {"type": "Frob"}]})");
            }),
            "t.pre_tokenizer.pretokenizers[1]: unknown pre_tokenizer \"Frob\"");
  EXPECT_THAT(refusal([](Json& j) { j["model"]["dropout"] = 0.1; }),
              HasSubstr("dropout makes encoding random"));
  EXPECT_THAT(refusal([](Json& j) { j["model"]["end_of_word_suffix"] = "</w>"; }),
              HasSubstr("not supported"));
  EXPECT_THAT(refusal([](Json& j) {
                j["pre_tokenizer"] = Json::parse(R"({"type": "Split", "pattern": {"String": "x"},
              "behavior": "Frob"})");
              }),
              HasSubstr("unknown behavior \"Frob\""));
  Json deep = {{"type", "NFC"}};
  for (int i = 0; i < 50; ++i) deep = {{"type", "Sequence"}, {"normalizers", Json::array({deep})}};
  EXPECT_THAT(refusal([&](Json& j) { j["normalizer"] = deep; }), HasSubstr("nested deeper than"));
}

TEST(BadTokenizer, Merges) {
  const auto with_merge = [](const Json& merge) {
    return refusal([&](Json& j) { j["model"]["merges"].push_back(merge); });
  };
  EXPECT_EQ(with_merge("abc"), "t.model.merges[2]: the merge \"abc\" does not split in two");
  EXPECT_EQ(with_merge("a b c"), "t.model.merges[2]: the merge \"a b c\" does not split in two");
  EXPECT_EQ(with_merge({"a"}), "t.model.merges[2]: expected a merge of two strings");
  EXPECT_EQ(with_merge({"a", 1}), "t.model.merges[2]: expected a merge of two strings");
  EXPECT_EQ(with_merge("a x"), "t.model.merges[2]: \"x\" is not in the vocabulary");
  EXPECT_EQ(with_merge("b b"), "t.model.merges[2]: \"bb\" is not in the vocabulary");
  EXPECT_EQ(with_merge("#version: 0.2"), "loaded");
  EXPECT_EQ(with_merge({"ab", "c"}), "loaded");
}

TEST(BadTokenizer, IdsAndTokens) {
  EXPECT_EQ(refusal([](Json& j) { j["model"]["vocab"]["x"] = 1; }),
            "t.model.vocab[\"x\"]: id 1 belongs to \"a\" already");
  EXPECT_EQ(refusal([](Json& j) { j["model"]["vocab"]["x"] = -1; }),
            "t.model.vocab[\"x\"]: id -1 is out of range 0..4194303");
  EXPECT_EQ(refusal([](Json& j) { j["model"]["vocab"]["x"] = 99999999; }),
            "t.model.vocab[\"x\"]: id 99999999 is out of range 0..4194303");
  EXPECT_THAT(refusal([](Json& j) { j["model"]["vocab"]["x"] = "1"; }), HasSubstr("expected an integer"));
  EXPECT_THAT(refusal([](Json& j) { j["model"]["unk_token"] = "<unk>"; }),
              HasSubstr("is not in the vocabulary"));
  EXPECT_EQ(refusal([](Json& j) { j["added_tokens"] = {added("x", 3)}; }),
            "t.added_tokens[0]: id 3 of \"x\" belongs to \"c\" already");
  EXPECT_EQ(refusal([](Json& j) { j["added_tokens"] = {added("a", 9)}; }),
            "t.added_tokens[0]: \"a\" has id 9, but 1 in the vocabulary");
  EXPECT_EQ(refusal([](Json& j) {
              j["added_tokens"] = {added("x", 8), added("x", 9)};
            }),
            "t.added_tokens[1]: the added token \"x\" is there twice");
  EXPECT_THAT(refusal([](Json& j) {
                j["post_processor"] = {{"type", "BertProcessing"}, {"sep", {"x", 77}}, {"cls", {"a", 1}}};
              }),
              HasSubstr("no token has id 77"));
  std::string twice = small().dump();
  twice.replace(twice.find("\"a\":1"), 5, "\"b\":1");
  EXPECT_THROW(Tokenizer::from_json(twice, "t"), base::InputError);
}

TEST(BadTokenizer, Files) {
  const auto from = [](const std::string& json) {
    try {
      Tokenizer::from_json(json, "t");
    } catch (const base::InputError& error) {
      return std::string(error.what());
    }
    return std::string("loaded");
  };
  EXPECT_THAT(from(""), HasSubstr("t: not valid JSON"));
  EXPECT_THAT(from("[]"), HasSubstr("t: expected an object"));
  EXPECT_THAT(from("{}"), HasSubstr("t: \"model\" is missing"));
  EXPECT_THAT(from(R"({"model": {"vocab": {"\ud800": 1}, "merges": []}})"), HasSubstr("surrogate pair"));
  EXPECT_THAT(from("{\"model\": {\"vocab\": {\"\xC3\": 1}, \"merges\": []}}"),
              HasSubstr("t: not valid JSON"));
  EXPECT_THAT(from(std::string(100000, '[')), HasSubstr("t: not valid JSON"));
  EXPECT_THROW(Tokenizer::load("/nonexistent"), base::InputError);
}

TEST(BadTokenizer, Regexes) {
  const auto with_regex = [](const std::string& regex) {
    return refusal([&](Json& j) {
      j["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}};
    });
  };
  EXPECT_EQ(with_regex("\\p{L}+(?=x)|[^\\s\\d]"), "loaded");
  EXPECT_THAT(with_regex("a("),
              HasSubstr("t.pre_tokenizer.pattern.Regex: regex \"a(\": missing closing parenthesis"));
  EXPECT_THAT(with_regex("\\w+"), HasSubstr("this escape (\"\\w\") is not supported"));
  EXPECT_THAT(with_regex("[a&&b]"), HasSubstr("an intersection of classes"));
  EXPECT_THAT(with_regex("[[a]]"), HasSubstr("a class inside a class"));
  EXPECT_THAT(with_regex("\\p{Frob}"), HasSubstr("the property (\"Frob\") is not supported"));
  EXPECT_THAT(with_regex("^a"), HasSubstr("an anchor"));
  EXPECT_THAT(with_regex("(?<n>a)"), HasSubstr("this group"));
  EXPECT_THAT(with_regex("a\\"), HasSubstr("ends in a backslash"));
  EXPECT_THAT(with_regex("[ab"), HasSubstr("a class is not closed"));
}

// Not the end of the text, as a search that gives up would have it.
TEST(BadTokenizer, ARegexThatRunsOutOfStackIsAnError) {
  Json json = small();
  json["pre_tokenizer"] = {
      {"type", "Split"}, {"pattern", {{"Regex", "(?:a|b)*c"}}}, {"behavior", "Isolated"}};
  const Tokenizer tokenizer = load(json);
  EXPECT_EQ(tokenizer.encode(std::string(200000, 'a') + "c").size(), 200001u);
  EXPECT_THAT([&] { tokenizer.encode(std::string(30'000'000, 'a') + "c"); },
              testing::ThrowsMessage<base::InputError>(HasSubstr("JIT stack limit")));
}

TEST(BadText, IsNamedByItsPlace) {
  const Tokenizer tokenizer = load(small());
  const auto message = [&](std::string_view text) {
    try {
      tokenizer.encode(text);
    } catch (const base::InputError& error) {
      return std::string(error.what());
    }
    return std::string("encoded");
  };
  EXPECT_EQ(message("ab\xFF"), "text to encode: invalid UTF-8 at byte 2 (0xFF)");
  EXPECT_EQ(message("\xC3"), "text to encode: invalid UTF-8 at byte 0 (0xC3)");
  EXPECT_EQ(message("a\xED\xA0\x80"), "text to encode: invalid UTF-8 at byte 1 (0xED)");  // a lone surrogate
  EXPECT_EQ(message("\xC0\x80"), "text to encode: invalid UTF-8 at byte 0 (0xC0)");
  EXPECT_EQ(message("\xF4\x90\x80\x80"), "text to encode: invalid UTF-8 at byte 0 (0xF4)");
}

TEST(BadIds, AreNamed) {
  const Tokenizer tokenizer = load(small());
  for (const std::int32_t id : {-1, 7, 1 << 30}) {
    EXPECT_THAT(
        [&] {
          tokenizer.decode(Ids{1, id});
        },
        testing::ThrowsMessage<base::InputError>("t: no token has id " + std::to_string(id)));
    EXPECT_THROW(tokenizer.token_text(id), base::InputError);
    EXPECT_THROW(tokenizer.token_bytes(id), base::InputError);
    EXPECT_THROW(tokenizer.is_special(id), base::InputError);
    EXPECT_THROW(StreamDecoder(tokenizer).push(id), base::InputError);
    EXPECT_FALSE(tokenizer.has_token(id));
  }
}

TEST(TokenizerConfig, SpecialTokensAndBos) {
  const auto parts = read_tokenizer_json(small().dump(), "t");
  apply_tokenizer_config(
      TokenizerConfig::parse(
          R"({"bos_token": {"content": "a"}, "eos_token": "b", "add_bos_token": true, "unk_token": null,
                                 "model_max_length": 1000000000000000019884624838656})",
          "c"),
      *parts);
  const Tokenizer tokenizer(parts);
  EXPECT_EQ(tokenizer.bos_id(), 1);
  EXPECT_EQ(tokenizer.eos_id(), 2);
  EXPECT_THAT(tokenizer.encode("c"), ElementsAre(1, 3));
  EXPECT_THAT(tokenizer.encode("c", {.add_special_tokens = false}), ElementsAre(3));
}

TEST(TokenizerConfig, BadOnesAreNamed) {
  const auto message = [](const std::string& json) {
    try {
      const auto parts = read_tokenizer_json(small().dump(), "t");
      apply_tokenizer_config(TokenizerConfig::parse(json, "c"), *parts);
    } catch (const base::InputError& error) {
      return std::string(error.what());
    }
    return std::string("read");
  };
  EXPECT_EQ(message("[]"), "c: not a JSON object");
  EXPECT_THAT(message("{"), HasSubstr("c: not valid JSON: "));
  EXPECT_THAT(message(R"({"bos_token": "\udc00"})"), HasSubstr("surrogate U+DC00..U+DFFF must follow"));
  EXPECT_EQ(message("{\"a\": \"\xFF\"}"), "c: invalid UTF-8 at byte 7 (0xFF)");
  EXPECT_EQ(message(R"({"bos_token": 5})"), "c: bos_token is not a token's text");
  EXPECT_EQ(message(R"({"bos_token": "zz"})"), "c: bos_token \"zz\" is not a token of t");
  EXPECT_EQ(message(R"({"add_bos_token": 1})"), "c: add_bos_token is neither true nor false");
  EXPECT_EQ(message(R"({"chat_template": 1})"), "c: chat_template is neither text nor a list");
  EXPECT_EQ(message(R"({"chat_template": [{"name": "x"}]})"),
            "c: none of the chat templates is called \"default\"");
}

}  // namespace
}  // namespace tagalong::tokenizer
