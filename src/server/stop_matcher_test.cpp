#include "server/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace tagalong::server {
namespace {

// What a client would get, piece by piece.
struct Seen {
  std::string text;
  bool matched = false;
};

Seen feed(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopMatcher matcher(stops);
  std::string all;
  std::size_t sent = 0;
  Seen seen;
  for (const std::string& piece : pieces) {
    all += piece;
    matcher.push(piece);
    EXPECT_GE(matcher.certain(), sent) << "text was taken back";
    seen.text += all.substr(sent, matcher.certain() - sent);
    sent = matcher.certain();
    if (matcher.matched()) break;
  }
  matcher.finish();
  seen.text += all.substr(sent, matcher.certain() - sent);
  seen.matched = matcher.matched();
  return seen;
}

TEST(StopMatcher, WithoutStopStringsAllTextIsCertain) {
  StopMatcher matcher({});
  matcher.push("abc");
  EXPECT_EQ(matcher.certain(), 3U);
  EXPECT_FALSE(matcher.matched());
}

TEST(StopMatcher, FindsAStopStringAcrossThreePieces) {
  const Seen seen = feed({"O P Q"}, {"L M N ", "O", " P", " Q R"});
  EXPECT_TRUE(seen.matched);
  EXPECT_EQ(seen.text, "L M N ");
}

TEST(StopMatcher, HoldsBackABeginningAndReleasesItWhenRefuted) {
  StopMatcher matcher({"</end>"});
  matcher.push("text </e");
  EXPECT_EQ(matcher.certain(), 5U);
  matcher.push("x");
  EXPECT_EQ(matcher.certain(), 9U);
}

TEST(StopMatcher, ARefutedBeginningMayHoldAnother) {
  const Seen seen = feed({"aab"}, {"a", "a", "a", "b", "c"});
  EXPECT_TRUE(seen.matched);
  EXPECT_EQ(seen.text, "a");
}

TEST(StopMatcher, FinishReleasesWhatWasHeld) {
  const Seen seen = feed({"stop"}, {"do not sto"});
  EXPECT_FALSE(seen.matched);
  EXPECT_EQ(seen.text, "do not sto");
}

TEST(StopMatcher, TheFirstCompleteStringWinsHoweverTheTextIsCut) {
  for (const std::vector<std::string>& pieces :
       {std::vector<std::string>{"abcd"}, {"a", "b", "c", "d"}, {"ab", "cd"}, {"abc", "d"}}) {
    const Seen seen = feed({"bcd", "c"}, pieces);
    EXPECT_TRUE(seen.matched);
    EXPECT_EQ(seen.text, "ab");
  }
}

TEST(StopMatcher, OfTwoCompleteAtTheSameByteTheLongerCuts) {
  const Seen seen = feed({"c", "abc"}, {"xab", "c"});
  EXPECT_EQ(seen.text, "x");
}

// The plain definition: the least end of any occurrence, then the longest string that ends there.
Seen oracle(const std::vector<std::string>& stops, const std::string& text) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::size_t length = 0;
    for (const std::string& stop : stops) {
      if (end >= stop.size() && text.compare(end - stop.size(), stop.size(), stop) == 0) {
        length = std::max(length, stop.size());
      }
    }
    if (length != 0) return {text.substr(0, end - length), true};
  }
  return {text, false};
}

TEST(StopMatcher, AgreesWithThePlainDefinitionOnRandomTextAndCuts) {
  std::mt19937 random(7);
  const auto below = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); };
  const auto word = [&](int least, int most) {
    std::string s;
    for (int n = least + below(most - least + 1); n > 0; --n) s += static_cast<char>('a' + below(2));
    return s;
  };
  int matches = 0;
  for (int round = 0; round < 5000; ++round) {
    std::vector<std::string> stops;
    for (int n = below(4); n > 0; --n) stops.push_back(word(1, 7));
    std::vector<std::string> pieces;
    std::string text;
    for (int n = below(12); n > 0; --n) {
      pieces.push_back(word(0, 4));
      text += pieces.back();
    }
    const Seen expected = oracle(stops, text);
    const Seen seen = feed(stops, pieces);
    ASSERT_EQ(seen.text, expected.text) << text;
    ASSERT_EQ(seen.matched, expected.matched) << text;
    matches += seen.matched ? 1 : 0;
  }
  EXPECT_GT(matches, 500);
}

}  // namespace
}  // namespace tagalong::server
