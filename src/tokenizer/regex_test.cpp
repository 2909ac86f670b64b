#include "tokenizer/regex.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace tagalong::tokenizer {
namespace {

// The bad patterns themselves are in tokenizer_test.cpp.
TEST(Regex, APatternThatTriesExponentiallyManyWaysIsAnError) {
  const Regex regex("(?:a|aa)+[bc]", "test");
  const auto count = [&](const std::string& text) {
    int matches = 0;
    regex.for_each_match(text, [&](TextRange) { ++matches; });
    return matches;
  };
  EXPECT_EQ(count(std::string(60, 'a') + "b"), 1);
  try {
    count(std::string(60, 'a'));
    FAIL() << "no error";
  } catch (const base::InputError& error) {
    EXPECT_STREQ(error.what(), "regex \"(?:a|aa)+[bc]\" failed at byte 0 of 60: match limit exceeded");
  }
}

}  // namespace
}  // namespace tagalong::tokenizer
