// The hand-written splitters against PCRE2.
#include "tokenizer/known_splitters.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tokenizer/golden_testing.h"
#include "tokenizer/utf8.h"

namespace tagalong::tokenizer {
namespace {

std::string shown(const std::vector<Fragment>& fragments, std::string_view text) {
  std::string out;
  for (const Fragment& f : fragments) {
    out += f.match ? "[" : "(";
    out += text.substr(f.begin, f.end - f.begin);
    out += f.match ? "]" : ")";
  }
  return out;
}

class Known : public testing::TestWithParam<KnownPattern> {
 protected:
  void expect_same(std::string_view text) {
    std::vector<Fragment> expected;
    std::vector<Fragment> found;
    oracle_->find(text, expected);
    splitter_->find(text, found);
    ASSERT_EQ(shown(found, text), shown(expected, text));
  }

  std::unique_ptr<Splitter> oracle_ = pcre_splitter(GetParam().pattern, "pattern");
  std::unique_ptr<Splitter> splitter_ = known_splitter(GetParam().pattern);
};

TEST_P(Known, CutsTheRecordedStringsAsPcreDoes) {
  for (const std::string& text : golden_strings()) expect_same(text);
}

// Few characters of every kind, so that all neighbourhoods come up.
TEST_P(Known, CutsRandomStringsAsPcreDoes) {
  const std::vector<std::string> alphabet = {
      " ",  " ",      "\n",     "\r",     "\t",         "\u00A0", "\u180E", "a",      "b",
      "A",  "B",      "s",      "S",      "t",          "r",      "e",      "l",      "L",
      "'",  "'",      "\u017F", "1",      "2",          "\u0665", "\u00BD", ".",      "/",
      "-",  "$",      "<",      "É",      "é",          "ǅ",      "ʰ",      "中",     "龥",
      "か", "\u3040", "\u0301", "\u0903", "\U0001F600", "\u200B", "\u0001", "\uFFFD", "\U0001DF2B"};
  std::mt19937 random(7);
  for (int i = 0; i < 100000; ++i) {
    std::string text;
    for (auto n = random() % 12; n > 0; --n) text += alphabet[random() % alphabet.size()];
    expect_same(text);
  }
}

TEST_P(Known, IsChosenForItsPattern) {
  EXPECT_NE(splitter_, nullptr);
  EXPECT_EQ(known_splitter(std::string(GetParam().pattern) + "|x"), nullptr);
}

INSTANTIATE_TEST_SUITE_P(Patterns, Known, testing::ValuesIn(known_patterns().begin(), known_patterns().end()),
                         [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace tagalong::tokenizer
