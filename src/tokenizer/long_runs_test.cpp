// Long runs of one character: what takes quadratic time, or a stack as deep as the text, does not end here.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "tokenizer/golden_testing.h"

namespace tagalong::tokenizer {
namespace {

class LongRun : public testing::TestWithParam<std::string_view> {};

std::string run_of(std::string_view unit, std::size_t bytes) {
  std::string text;
  text.reserve(bytes);
  while (text.size() + unit.size() <= bytes) text += unit;
  return text;
}

TEST_P(LongRun, OfAMegabyteEndsAndComesBack) {
  const Tokenizer& tokenizer = golden_tokenizer(GetParam());
  for (const std::string_view unit :
       {"a", " ", "0", "\n", "\r\n", ".", "<", "\u0301", "中", "가", "😀", " a"}) {
    const std::string text = run_of(unit, 1'000'000);
    const auto ids = tokenizer.encode(text);
    EXPECT_LE(ids.size(), text.size());
    EXPECT_TRUE(tokenizer.decode(ids) == text) << unit;
  }
}

TEST_P(LongRun, OfTenMegabytesOfOneLetterEnds) {
  const Tokenizer& tokenizer = golden_tokenizer(GetParam());
  const std::string text(10'000'000, 'a');
  EXPECT_TRUE(tokenizer.decode(tokenizer.encode(text)) == text);
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, LongRun, testing::ValuesIn(kGoldenTokenizers),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace tagalong::tokenizer
