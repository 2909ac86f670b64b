#include "server/text_pipe.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace tagalong::server {
namespace {

const tokenizer::Tokenizer& story_tokenizer() {
  static const auto kTokenizer =
      tokenizer::Tokenizer::load(std::string(TAGALONG_SOURCE_DIR) + "/models/storyteller");
  return kTokenizer;
}

// The pieces that a client gets when the tokens of `text` come one by one.
std::vector<Delta> pieces(const std::string& text, std::vector<std::string> stops,
                          TextPipe::Logprobs logprobs, const std::string& prefix = "") {
  TextPipe pipe(story_tokenizer(), std::move(stops), logprobs, prefix);
  std::vector<Delta> all;
  const auto take = [&] {
    if (Delta delta = pipe.take(); !delta.empty()) all.push_back(std::move(delta));
  };
  for (const std::int32_t id : story_tokenizer().encode(text)) {
    const engine::TokenLogprob top{.id = id, .logprob = -0.5F};
    pipe.push(id, -0.5F, {&top, 1});
    if (pipe.stopped()) pipe.finish("stop");
    take();
  }
  pipe.finish("length");
  take();
  return all;
}

std::string text_of(const std::vector<Delta>& all) {
  std::string text;
  for (const Delta& delta : all) text += delta.text;
  return text;
}

const std::string kStory = "The fox said: \"I am hungry\", and the naïve crow – 烏 😀 – dropped the cheese.\n";

TEST(TextPipe, GivesTheWholeTextInWholeCharacters) {
  for (const auto logprobs : {TextPipe::Logprobs::kNo, TextPipe::Logprobs::kYes}) {
    const auto all = pieces(kStory, {}, logprobs);
    EXPECT_EQ(text_of(all), kStory);
    EXPECT_GT(all.size(), 10U) << "streamed, not saved up";
    for (const Delta& delta : all) EXPECT_EQ(delta.text.find("\uFFFD"), std::string::npos);
  }
}

TEST(TextPipe, FinishesExactlyOnce) {
  const auto all = pieces(kStory, {}, TextPipe::Logprobs::kNo);
  int finishes = 0;
  for (const Delta& delta : all) finishes += delta.finish.empty() ? 0 : 1;
  EXPECT_EQ(finishes, 1);
  EXPECT_EQ(all.back().finish, "length");
}

TEST(TextPipe, AStopStringAcrossTokensCutsTheText) {
  for (const auto logprobs : {TextPipe::Logprobs::kNo, TextPipe::Logprobs::kYes}) {
    const auto all = pieces(kStory, {"never", "hungry\", and the"}, logprobs);
    EXPECT_EQ(text_of(all), "The fox said: \"I am ");
    EXPECT_EQ(all.back().finish, "stop");
  }
}

TEST(TextPipe, ARefutedStopStringLosesNothing) {
  for (const auto logprobs : {TextPipe::Logprobs::kNo, TextPipe::Logprobs::kYes}) {
    EXPECT_EQ(text_of(pieces(kStory, {"hungry\", and the wolf", "cheese.\n\n"}, logprobs)), kStory);
  }
}

TEST(TextPipe, TheEchoedPromptIsNotSearchedForStopStrings) {
  const auto all = pieces("one two", {"two"}, TextPipe::Logprobs::kNo, "two by two: ");
  EXPECT_EQ(text_of(all), "two by two: one ");
}

// What a client adds up from the tokens must be what it adds up from the text, piece by piece.
TEST(TextPipe, TextAndTokensOfAPieceLineUp) {
  for (const std::vector<std::string>& stops :
       {std::vector<std::string>{}, {"hungry", "I am hungry\", and a"}, {"the naïve crow flew"}, {"😀😀"}}) {
    std::string characters;
    for (const Delta& delta : pieces(kStory, stops, TextPipe::Logprobs::kYes)) {
      std::string bytes;
      for (const TokenRecord& token : delta.tokens) {
        bytes += token.bytes;
        ASSERT_EQ(token.top.size(), 1U);
        EXPECT_EQ(token.top[0].first, token.bytes);
      }
      if (delta.finish.empty()) {
        EXPECT_EQ(bytes, delta.text);
      } else {
        EXPECT_TRUE(bytes.starts_with(delta.text)) << "only a stop string cuts a token";
      }
    }
  }
}

TEST(TextPipe, OffsetsCountCharacters) {
  std::vector<std::size_t> offsets;
  std::string text;
  for (const Delta& delta : pieces("né 😀 z", {}, TextPipe::Logprobs::kYes)) {
    for (const TokenRecord& token : delta.tokens) offsets.push_back(token.offset);
    text += delta.text;
  }
  ASSERT_FALSE(offsets.empty());
  EXPECT_EQ(offsets.front(), 0U);
  EXPECT_TRUE(std::is_sorted(offsets.begin(), offsets.end()));
  EXPECT_LT(offsets.back(), 6U) << "six characters, eleven bytes";
}

TEST(TextPipe, AnUnfinishedCharacterBecomesOneReplacementAtTheEnd) {
  const auto ids = story_tokenizer().encode("a😀");
  TextPipe pipe(story_tokenizer(), {}, TextPipe::Logprobs::kNo, "");
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) pipe.push(ids[i], 0, {});
  const std::string before = pipe.take().text;
  EXPECT_EQ(before, "a");
  pipe.finish("length");
  EXPECT_EQ(pipe.take().text, "\uFFFD");
}

TEST(TextPipe, IdsThatAreNoTokensAndTokensAfterTheEndAddNothing) {
  TextPipe pipe(story_tokenizer(), {"b"}, TextPipe::Logprobs::kNo, "");
  pipe.push(story_tokenizer().vocab_size() + 5, 0, {});
  EXPECT_TRUE(pipe.take().empty());
  for (const std::int32_t id : story_tokenizer().encode("a b c")) pipe.push(id, 0, {});
  pipe.finish("length");
  pipe.finish("length");
  const Delta delta = pipe.take();
  EXPECT_EQ(delta.text, "a ");
  EXPECT_EQ(delta.finish, "stop");
  EXPECT_TRUE(pipe.take().empty());
}

}  // namespace
}  // namespace tagalong::server
