#include "tokenizer/reply_parser.h"

#include <gtest/gtest.h>

#include <string>

#include "tokenizer/golden_testing.h"

namespace tagalong::tokenizer {

void PrintTo(const ReplyPart& part, std::ostream* out) {
  const char* const names[] = {"reasoning", "content", "call"};
  *out << names[static_cast<int>(part.kind)] << "(" << part.text << (part.arguments.empty() ? "" : " ")
       << part.arguments << ")";
}

namespace {

using Json = nlohmann::ordered_json;
using Kind = ReplyPart::Kind;
using Parts = std::vector<ReplyPart>;

ReplyFormat format_of(const std::string& name) {
  return ReplyFormat::of(ChatTemplate::parse(golden_file("template/" + name + ".jinja")));
}

ReplyPart reasoning(std::string text) { return {Kind::reasoning, std::move(text), {}}; }
ReplyPart content(std::string text) { return {Kind::content, std::move(text), {}}; }
ReplyPart call(std::string name, std::string arguments) {
  return {Kind::call, std::move(name), std::move(arguments)};
}

void append(Parts& all, Parts more) {
  for (ReplyPart& part : more) {
    const bool joins = !all.empty() && all.back().kind == part.kind && part.kind != Kind::call;
    if (joins) {
      all.back().text += part.text;
    } else {
      all.push_back(std::move(part));
    }
  }
}

struct Case {
  ReplyFormat format;
  ReplyParser::Start start = ReplyParser::Start::reply;
  Json tools = nullptr;
};

Parts parse(const Case& setup, const std::vector<std::string_view>& chunks) {
  ReplyParser parser(setup.format, setup.start, setup.tools);
  Parts all;
  for (const std::string_view chunk : chunks) append(all, parser.push(chunk));
  append(all, parser.finish());
  return all;
}

// The whole at once, in two chunks at every border, in three at many, and byte by byte.
void expect_parts(const Case& setup, std::string_view reply, const Parts& expected) {
  ASSERT_EQ(parse(setup, {reply}), expected) << reply;
  std::vector<std::string_view> bytes;
  for (std::size_t i = 0; i < reply.size(); ++i) {
    bytes.push_back(reply.substr(i, 1));
    ASSERT_EQ(parse(setup, {reply.substr(0, i), reply.substr(i)}), expected)
        << "cut at " << i << " of " << reply;
    for (std::size_t j = i; j < reply.size(); j += 5) {
      ASSERT_EQ(parse(setup, {reply.substr(0, i), reply.substr(i, j - i), reply.substr(j)}), expected);
    }
  }
  ASSERT_EQ(parse(setup, bytes), expected) << reply;
}

TEST(chat_template_markers, AreFoundByRendering) {
  EXPECT_EQ(format_of("glm").family, "glm");
  EXPECT_EQ(format_of("qwen3").family, "qwen3");
  EXPECT_EQ(format_of("deepseek_v3").family, "deepseek_v3");
  EXPECT_EQ(format_of("storyteller").family, "plain");
  EXPECT_EQ(format_of("qwen3").reasoning_end, "</think>");
  EXPECT_EQ(format_of("deepseek_v3").reasoning_end, "");
  EXPECT_EQ(format_of("storyteller").reasoning_end, "");
}

TEST(chat_template_markers, APromptMayHaveOpenedTheReasoning) {
  const ReplyFormat format = format_of("qwen3");
  EXPECT_TRUE(format.opens_reasoning("<|im_start|>assistant\n<think>\n"));
  EXPECT_FALSE(format.opens_reasoning("<|im_start|>assistant\n"));
  EXPECT_FALSE(format.opens_reasoning("<|im_start|>assistant\n<think>\n\n</think>\n\n"));
  EXPECT_FALSE(format.opens_reasoning(""));
  EXPECT_FALSE(format_of("storyteller").opens_reasoning("<think>"));
}

TEST(chat_template_reply, ReasoningAndContent) {
  const Case qwen{format_of("qwen3")};
  expect_parts(qwen, "<think>\nwhy\nso\n</think>\n\nbecause\n", {reasoning("why\nso"), content("because\n")});
  expect_parts(qwen, "\n <think>why</think>because", {reasoning("why"), content("because")});
  expect_parts(qwen, "<think>\n\n</think>\n\nx", {content("x")});
  expect_parts(qwen, "just text", {content("just text")});
  expect_parts(qwen, " <thin> < text", {content(" <thin> < text")});
  expect_parts(qwen, "a <think>b</think> c", {content("a <think>b</think> c")});
  expect_parts(qwen, "", {});
  expect_parts(qwen, "<think", {content("<think")});
}

TEST(chat_template_reply, ReasoningThatIsNeverClosedStaysReasoning) {
  const Case qwen{format_of("qwen3")};
  expect_parts(qwen, "<think>\nwhy <tool_call> </thin", {reasoning("why <tool_call> </thin")});
  const Case inside{format_of("qwen3"), ReplyParser::Start::inside_reasoning};
  expect_parts(inside, "\nwhy\n\nso", {reasoning("why\n\nso")});
  expect_parts(inside, "why</think>\n\nso", {reasoning("why"), content("so")});
}

TEST(chat_template_reply, QwenCalls) {
  const Case qwen{format_of("qwen3")};
  expect_parts(
      qwen,
      "<think>\nr\n</think>\n\nLet me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1, \"b\": "
      "\"é</tool_call>\\\"\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"g\", \"arguments\": "
      "{}}\n</tool_call>",
      {reasoning("r"), content("Let me see."), call("f", R"({"a":1,"b":"é</tool_call>\""})"),
       call("g", "{}")});
  expect_parts(qwen, "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 2}\"}</tool_call>done",
               {call("f", R"({"a":2})"), content("done")});
  expect_parts(qwen, "<tool_call>{\"name\": \"f\"}</tool_call>", {call("f", "{}")});
}

TEST(chat_template_reply, GlmCalls) {
  Case glm{format_of("glm")};
  const std::string reply =
      "\n<think>r</think>\n<tool_call>get_weather\n<arg_key>place</arg_key>\n<arg_value>Zürich </tool_call> "
      "</arg_value>\n<arg_key>zip</arg_key>\n<arg_value>8001</arg_value>\n<arg_key>opts</"
      "arg_key>\n<arg_value>{\"a\": "
      "[1, true]}</arg_value>\n</tool_call>\n<tool_call>ping</tool_call>";
  expect_parts(glm, reply,
               {reasoning("r"),
                call("get_weather", R"({"place":"Zürich </tool_call> ","zip":8001,"opts":{"a":[1,true]}})"),
                call("ping", "{}")});
  glm.tools = Json::parse(R"([{"type": "function", "function": {"name": "get_weather", "parameters":
      {"properties": {"zip": {"type": "string"}, "opts": {"type": "object"}}}}}])");
  expect_parts(glm, reply,
               {reasoning("r"),
                call("get_weather", R"({"place":"Zürich </tool_call> ","zip":"8001","opts":{"a":[1,true]}})"),
                call("ping", "{}")});
}

TEST(chat_template_reply, DeepSeekCalls) {
  const Case deepseek{format_of("deepseek_v3")};
  expect_parts(
      deepseek,
      "Ok.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": "
      "1}\n```<｜tool▁call▁end｜>\n"
      "<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
      {content("Ok."), call("f", R"({"a":1})"), call("g", "{}")});
}

TEST(chat_template_reply, ACallThatCannotBeUnderstoodIsContent) {
  const Case qwen{format_of("qwen3")};
  expect_parts(qwen, "<tool_call>{\"name\": 1}</tool_call> x",
               {content("<tool_call>{\"name\": 1}</tool_call> x")});
  expect_parts(qwen, "<tool_call>nonsense</tool_call>\n<tool_call>{\"name\": \"f\"}</tool_call>",
               {content("<tool_call>nonsense</tool_call>"), call("f", "{}")});
  expect_parts(qwen, "a<tool_call>{\"name\": \"f\", \"argu",
               {content("a<tool_call>{\"name\": \"f\", \"argu")});
  expect_parts(qwen, "a<tool_call>{\"open string</tool_call><tool_call>{\"name\": \"f\"}</tool_call>!",
               {content("a<tool_call>{\"open string</tool_call>"), call("f", "{}"), content("!")});
  const Case glm{format_of("glm")};
  expect_parts(glm, "<tool_call>f<arg_key>a</arg_key></tool_call>",
               {content("<tool_call>f<arg_key>a</arg_key></tool_call>")});
  expect_parts(glm, "<tool_call></tool_call>", {content("<tool_call></tool_call>")});
}

TEST(chat_template_reply, WithoutMarkersAllIsContent) {
  const Case plain{ReplyFormat{}};
  expect_parts(plain, "<think>a</think>\n<tool_call>\n", {content("<think>a</think>\n<tool_call>\n")});
}

}  // namespace
}  // namespace tagalong::tokenizer
