// Normalisers against the recorded answers of the reference implementation, over all characters.
#include "tokenizer/normalizer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "tokenizer/golden_testing.h"
#include "tokenizer/utf8.h"

namespace tagalong::tokenizer {
namespace {

std::unique_ptr<Normalizer> normalizer_of(const std::string& json) {
  simdjson::dom::parser parser;
  return Normalizer::parse(JsonView(parser.parse(json).value(), "test"));
}

std::string normalized(const Normalizer& normalizer, const std::string& input, Alignment alignment) {
  AlignedText text(input, 0, alignment);
  normalizer.apply(text);
  return std::string(text.view());
}

// The texts of tests/golden/tokenizer/normalizers.py.
std::vector<std::vector<std::string>> blocks() {
  std::vector<std::vector<std::string>> result;
  const std::vector<std::string>& strings = golden_strings();
  for (std::size_t start = 0; start < strings.size(); start += 100) {
    const auto first = strings.begin() + static_cast<std::ptrdiff_t>(start);
    result.emplace_back(
        first, first + static_cast<std::ptrdiff_t>(std::min<std::size_t>(100, strings.size() - start)));
  }
  constexpr char32_t kBlock = 4096;
  for (char32_t start = 0; start < 0x110000; start += kBlock) {
    std::string alone;
    std::string among_marks;
    for (char32_t c = start; c < start + kBlock; ++c) {
      if (c >= 0xD800 && c < 0xE000) continue;
      std::string character;
      append_utf8(character, c);
      if (!alone.empty()) alone += '\n';
      if (!among_marks.empty()) among_marks += '\n';
      alone += character;
      among_marks += "e" + character + "\u0323\u0301";
    }
    result.push_back({alone, among_marks});
  }
  return result;
}

TEST(Normalizer, EveryRecordedBlockBecomesTheSameText) {
  const auto rows = nlohmann::json::parse(golden_file("tokenizer/normalizers.json"));
  const auto texts = blocks();
  ASSERT_GE(rows.size(), 13u);
  for (const auto& row : rows) {
    const std::string json = row["normalizer"].dump();
    const auto normalizer = normalizer_of(json);
    std::istringstream hashes(row["hashes"].get<std::string>());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      std::string outputs;
      for (std::size_t j = 0; j < texts[i].size(); ++j) {
        if (j > 0) outputs += '\n';
        outputs += normalized(*normalizer, texts[i][j], Alignment::none);
      }
      std::uint32_t expected = 0;
      hashes >> std::hex >> expected;
      ASSERT_FALSE(hashes.fail()) << json << " block " << i;
      EXPECT_EQ(static_cast<std::uint32_t>(fnv1a(outputs)), expected) << json << " block " << i;
    }
    std::string more;
    EXPECT_FALSE(hashes >> more) << json;
  }
}

TEST(Normalizer, OffsetsAreThoseOfTheCharactersThatWereChanged) {
  const auto origin = [](const std::string& json, const std::string& input, std::size_t begin,
                         std::size_t end) {
    AlignedText text(input, 10, Alignment::kept);
    normalizer_of(json)->apply(text);
    return text.origin(begin, end);
  };
  EXPECT_EQ(origin(R"({"type": "Lowercase"})", "aÉb", 1, 3), (TextRange{11, 13}));
  EXPECT_EQ(origin(R"({"type": "Lowercase"})", "aÉb", 3, 4), (TextRange{13, 14}));
  EXPECT_EQ(origin(R"({"type": "StripAccents"})", "e\u0301b", 1, 2), (TextRange{13, 14}));
  EXPECT_EQ(origin(R"({"type": "NFD"})", "aéb", 4, 5), (TextRange{13, 14}));
  EXPECT_EQ(origin(R"({"type": "NFKD"})", "aﬁb", 1, 3), (TextRange{11, 14}));
  EXPECT_EQ(origin(R"({"type": "NFC"})", "ae\u0301b", 1, 3), (TextRange{11, 14}));
  EXPECT_EQ(origin(R"({"type": "Strip", "strip_left": true, "strip_right": true})", " \u3000b ", 0, 1),
            (TextRange{14, 15}));
}

TEST(Normalizer, TheAlignmentDoesNotChangeTheText) {
  const auto rows = nlohmann::json::parse(golden_file("tokenizer/normalizers.json"));
  for (const auto& row : rows) {
    const auto normalizer = normalizer_of(row["normalizer"].dump());
    for (std::size_t i = 0; i < golden_strings().size(); i += 50) {
      EXPECT_EQ(normalized(*normalizer, golden_strings()[i], Alignment::kept),
                normalized(*normalizer, golden_strings()[i], Alignment::none));
    }
  }
}

// Ordering a run of marks must not take quadratic time: at that, this would take hours.
TEST(Normalizer, AMillionMarksInTheWrongOrderEnd) {
  std::string text = "e";
  std::string ordered = "e";
  for (int i = 0; i < 500'000; ++i) text += "\u0301\u0323";
  for (int i = 0; i < 500'000; ++i) ordered += "\u0323";
  for (int i = 0; i < 500'000; ++i) ordered += "\u0301";
  EXPECT_EQ(normalized(*normalizer_of(R"({"type": "NFD"})"), text, Alignment::none), ordered);
}

TEST(Normalizer, TextThatGrowsWithoutEndIsAnError) {
  std::string steps;
  for (int i = 0; i < 8; ++i) {
    steps += std::string(i > 0 ? "," : "") +
             R"({"type": "Replace", "pattern": {"String": "a"}, "content": ")" + std::string(1000, 'a') +
             "\"}";
  }
  const auto normalizer = normalizer_of(R"({"type": "Sequence", "normalizers": [)" + steps + "]}");
  EXPECT_THROW(normalized(*normalizer, "a", Alignment::none), base::InputError);
}

}  // namespace
}  // namespace tagalong::tokenizer
