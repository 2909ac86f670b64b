// The recorded answers of the reference implementation: see tests/golden/tokenizer/make_vectors.py.
#include "tokenizer/golden_testing.h"

#include <gtest/gtest.h>
#include <lzma.h>

#include <cstring>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/mapped_file.h"
#include "tokenizer/stream_decoder.h"
#include "tokenizer/tokenizer_parts.h"
#include "tokenizer/utf8.h"

namespace tagalong::tokenizer {

std::string golden_file(std::string_view name) {
  const std::string packed =
      base::read_text_file(std::string(TAGALONG_SOURCE_DIR "/tests/golden/") + std::string(name));
  if (!name.ends_with(".xz")) return packed;
  std::string text(64 << 20, '\0');
  std::uint64_t memory = std::numeric_limits<std::uint64_t>::max();
  std::size_t in = 0;
  std::size_t out = 0;
  const lzma_ret result = lzma_stream_buffer_decode(
      &memory, 0, nullptr, reinterpret_cast<const std::uint8_t*>(packed.data()), &in, packed.size(),
      reinterpret_cast<std::uint8_t*>(text.data()), &out, text.size());
  CHECK(result == LZMA_OK, "{}: {}", name, static_cast<int>(result));
  text.resize(out);
  return text;
}

const Tokenizer& golden_tokenizer(std::string_view name) {
  static std::map<std::string, Tokenizer, std::less<>> loaded;
  const auto known = loaded.find(name);
  if (known != loaded.end()) return known->second;
  const std::string text(name);
  Tokenizer tokenizer =
      name == "storyteller"
          ? Tokenizer::from_json(
                base::read_text_file(TAGALONG_SOURCE_DIR "/models/storyteller/tokenizer.json"), name)
          : Tokenizer::from_json(golden_file("tokenizer/" + text + ".json.xz"), name);
  return loaded.emplace(text, std::move(tokenizer)).first->second;
}

const std::vector<std::string>& golden_strings() {
  static const std::vector<std::string> strings = [] {
    const std::string lines = golden_file("tokenizer/strings.jsonl.xz");
    std::vector<std::string> result;
    for (std::size_t at = 0; at < lines.size();) {
      const std::size_t end = lines.find('\n', at);
      result.push_back(nlohmann::json::parse(lines.substr(at, end - at)).get<std::string>());
      at = end + 1;
    }
    return result;
  }();
  return strings;
}

std::vector<std::string> strings_around(const std::string& token) {
  const std::size_t first = code_point_at(token, 0).length;
  const std::string but_last = token.substr(0, token.size() - code_point_before(token, token.size()).length);
  return {token,    "a" + token + "b",        " " + token + " ",          token + token,
          but_last, "é\n" + token + "\u0301", token.substr(first) + token};
}

std::uint64_t fnv1a(std::string_view bytes) {
  std::uint64_t state = 0xCBF29CE484222325u;
  for (const char c : bytes) state = (state ^ static_cast<std::uint8_t>(c)) * 0x100000001B3u;
  return state;
}

namespace {

template <typename T>
std::vector<T> words(const std::string& bytes) {
  std::vector<T> result(bytes.size() / sizeof(T));
  std::memcpy(result.data(), bytes.data(), result.size() * sizeof(T));
  return result;
}

std::vector<std::string> added_tokens(std::string_view name) {
  const std::string json =
      name == "storyteller" ? base::read_text_file(TAGALONG_SOURCE_DIR "/models/storyteller/tokenizer.json")
                            : golden_file("tokenizer/" + std::string(name) + ".json.xz");
  std::map<int, std::string> by_id;
  const auto document = nlohmann::json::parse(json);
  for (const auto& token : document["added_tokens"])
    by_id[token["id"].get<int>()] = token["content"].get<std::string>();
  std::vector<std::string> result;
  for (const auto& [id, content] : by_id) result.push_back(content);
  return result;
}

// The first and the last character of each token, as the reference counts.
std::vector<std::int32_t> character_offsets(const std::vector<Token>& tokens, const std::string& text) {
  std::vector<std::int32_t> character_at(text.size() + 1);
  std::int32_t count = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    character_at[i] = count;
    if (i + 1 == text.size() || (text[i + 1] & 0xC0) != 0x80) ++count;
  }
  character_at[text.size()] = count;
  std::vector<std::int32_t> offsets;
  for (const Token& token : tokens) {
    offsets.push_back(character_at[token.range.begin]);
    offsets.push_back(character_at[token.range.end]);
  }
  return offsets;
}

std::uint64_t hash_of(const std::vector<std::int32_t>& ids) {
  return fnv1a({reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(ids[0])});
}

class Golden : public testing::TestWithParam<std::string_view> {};

TEST_P(Golden, EveryRecordedStringGivesTheSameIdsAndTheSameTextBack) {
  const Tokenizer& tokenizer = golden_tokenizer(GetParam());
  const std::string stem = "tokenizer/" + std::string(GetParam());
  const auto hashes = words<std::uint64_t>(golden_file(stem + ".hashes"));
  const auto decoded = words<std::uint32_t>(golden_file(stem + ".decoded.hashes"));
  std::vector<std::string> strings = golden_strings();
  ASSERT_GE(strings.size(), 20000u);
  for (const std::string& token : added_tokens(GetParam())) {
    for (std::string& text : strings_around(token)) strings.push_back(std::move(text));
  }
  ASSERT_EQ(hashes.size(), strings.size());
  ASSERT_EQ(decoded.size(), strings.size());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < strings.size() && wrong < 20; ++i) {
    const auto ids = tokenizer.encode(strings[i]);
    const bool same_ids = hash_of(ids) == hashes[i];
    EXPECT_TRUE(same_ids) << i << ": " << strings[i] << "\n" << testing::PrintToString(ids);
    const bool same_text = static_cast<std::uint32_t>(fnv1a(tokenizer.decode(ids))) == decoded[i];
    EXPECT_TRUE(same_text || !same_ids) << i << ": " << strings[i] << " decoded as " << tokenizer.decode(ids);
    if (!same_ids || !same_text) ++wrong;
  }
}

// Where the text is normalised, the reference leaves out all but the first of the characters that became one;
// here a token has them all. Only texts that stay as they are can be compared.
TEST_P(Golden, EveryRecordedStringGivesTheSameOffsets) {
  const Tokenizer& tokenizer = golden_tokenizer(GetParam());
  const auto hashes =
      words<std::uint32_t>(golden_file("tokenizer/" + std::string(GetParam()) + ".offsets.hashes"));
  std::vector<std::string> strings = golden_strings();
  for (const std::string& token : added_tokens(GetParam())) {
    for (std::string& text : strings_around(token)) strings.push_back(std::move(text));
  }
  ASSERT_EQ(hashes.size(), strings.size());
  std::size_t compared = 0;
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < strings.size() && wrong < 20; ++i) {
    const auto tokens = tokenizer.encode_with_offsets(strings[i]);
    if (tokenizer.decode(tokenizer.encode(strings[i])) != strings[i]) continue;
    ++compared;
    const auto offsets = character_offsets(tokens, strings[i]);
    const bool same = static_cast<std::uint32_t>(hash_of(offsets)) == hashes[i];
    EXPECT_TRUE(same) << i << ": " << strings[i] << "\n" << testing::PrintToString(offsets);
    if (!same) ++wrong;
  }
  EXPECT_GE(compared, strings.size() * 9 / 10);
}

TEST_P(Golden, SampleOfAllIds) {
  const Tokenizer& tokenizer = golden_tokenizer(GetParam());
  const auto sample =
      nlohmann::json::parse(golden_file("tokenizer/" + std::string(GetParam()) + ".sample.json"));
  ASSERT_GT(sample.size(), 100u);
  for (const auto& row : sample) {
    const auto text = row["text"].get<std::string>();
    const auto ids = tokenizer.encode(text);
    EXPECT_EQ(ids, row["ids"].get<std::vector<std::int32_t>>()) << text;
    if (tokenizer.decode(ids) != text) continue;  // normalised: see above
    EXPECT_EQ(character_offsets(tokenizer.encode_with_offsets(text), text),
              row["offsets"].get<std::vector<std::int32_t>>())
        << text;
  }
}

TEST_P(Golden, DecodingWhatWasEncodedGivesTheTextBack) {
  const Tokenizer& tokenizer = golden_tokenizer(GetParam());
  for (const std::string& text : golden_strings()) {
    // Only Qwen3 normalises.
    std::string expected = text;
    if (GetParam() == "qwen3") {
      AlignedText normal(text, 0, Alignment::none);
      simdjson::dom::parser parser;
      const JsonView nfc(parser.parse(std::string_view(R"({"type":"NFC"})")).value(), "nfc");
      Normalizer::parse(nfc)->apply(normal);
      expected = normal.view();
    }
    ASSERT_EQ(tokenizer.decode(tokenizer.encode(text)), expected);
  }
}

TEST_P(Golden, StreamingGivesTheSameTextInWholeCharacters) {
  const Tokenizer& tokenizer = golden_tokenizer(GetParam());
  for (const std::string& text : golden_strings()) {
    const auto ids = tokenizer.encode(text);
    StreamDecoder stream(tokenizer);
    std::string streamed;
    for (const std::int32_t id : ids) {
      const std::string part = stream.push(id);
      ASSERT_FALSE(find_invalid_utf8(part)) << text;
      streamed += part;
    }
    streamed += stream.finish();
    ASSERT_EQ(streamed, tokenizer.decode(ids));
  }
}

TEST_P(Golden, OffsetsCoverTheTextInOrder) {
  const Tokenizer& tokenizer = golden_tokenizer(GetParam());
  for (const std::string& text : golden_strings()) {
    const auto tokens = tokenizer.encode_with_offsets(text);
    const auto ids = tokenizer.encode(text);
    ASSERT_EQ(tokens.size(), ids.size());
    std::size_t covered = 0;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      ASSERT_EQ(tokens[i].id, ids[i]);
      ASSERT_LE(tokens[i].range.begin, covered) << "a gap in " << text;
      ASSERT_LE(tokens[i].range.end, text.size());
      ASSERT_GE(tokens[i].range.end, covered) << "out of order in " << text;
      covered = tokens[i].range.end;
    }
    ASSERT_EQ(covered, text.size());
  }
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, Golden, testing::ValuesIn(kGoldenTokenizers),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace tagalong::tokenizer
