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
  ReplyStart start = ReplyStart::reply;
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
  EXPECT_EQ(format_of("gptoss").family, "gpt-oss");
  EXPECT_EQ(format_of("storyteller").family, "plain");
  EXPECT_EQ(format_of("qwen3").reasoning_end, "</think>");
  EXPECT_EQ(format_of("deepseek_v3").reasoning_end, "");
  EXPECT_EQ(format_of("storyteller").reasoning_end, "");
  // DeepSeek-V3.1 writes no type and no fence.
  const auto later = ChatTemplate::parse(
      "{% for m in messages %}{% for c in m.tool_calls or [] %}<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>"
      "{{ c.function.name + '<｜tool▁sep｜>' + c.function.arguments }}<｜tool▁call▁end｜>{% endfor %}{% "
      "endfor %}"
      "{{ '</think>' }}");
  EXPECT_EQ(ReplyFormat::of(later).family, "deepseek_v3");
  EXPECT_EQ(ReplyFormat::of(later).reasoning_begin, "<think>");
}

// Models that come without a template, or with one that shows no calls.
TEST(chat_template_markers, AreFoundByTheTokenizersTokens) {
  const auto of = [](std::string_view name) { return ReplyFormat::of(std::nullopt, golden_tokenizer(name)); };
  EXPECT_EQ(of("gptoss").family, "gpt-oss");
  EXPECT_EQ(of("qwen3").family, "qwen3");
  EXPECT_EQ(of("qwen3").reasoning_end, "</think>");
  EXPECT_EQ(of("deepseek_v3").family, "deepseek_v3");
  EXPECT_EQ(of("deepseek_v3").reasoning_end, "");
  EXPECT_EQ(of("storyteller").family, "plain");
  const ChatTemplate silent = ChatTemplate::parse("{{ messages[0].content }}");
  EXPECT_EQ(ReplyFormat::of(silent, golden_tokenizer("qwen3")).family, "qwen3");
  // It shows calls, so it would show reasoning.
  EXPECT_EQ(ReplyFormat::of(silent, golden_tokenizer("qwen3")).reasoning_end, "");
  // What the template shows counts for more than what the tokenizer has.
  const ChatTemplate glm = ChatTemplate::parse(golden_file("template/glm.jinja"));
  EXPECT_EQ(ReplyFormat::of(glm, golden_tokenizer("qwen3")).family, "glm");
}

TEST(chat_template_markers, APromptMayHaveBegunTheReply) {
  const ReplyFormat qwen = format_of("qwen3");
  EXPECT_EQ(qwen.start_after("<|im_start|>assistant\n<think>\n"), ReplyStart::inside_reasoning);
  EXPECT_EQ(qwen.start_after("<|im_start|>assistant\n"), ReplyStart::reply);
  EXPECT_EQ(qwen.start_after("<|im_start|>assistant\n<think>\n\n</think>\n\n"), ReplyStart::reply);
  EXPECT_EQ(qwen.start_after(""), ReplyStart::reply);
  EXPECT_EQ(format_of("storyteller").start_after("<think>"), ReplyStart::reply);
  const ReplyFormat gptoss = format_of("gptoss");
  EXPECT_EQ(gptoss.start_after("<|start|>user<|message|>x<|end|><|start|>assistant"), ReplyStart::reply);
  EXPECT_EQ(gptoss.start_after("<|start|>assistant<|channel|>final<|message|>"), ReplyStart::inside_content);
  EXPECT_EQ(gptoss.start_after("<|start|>assistant<|channel|>analysis<|message|>I th"),
            ReplyStart::inside_reasoning);
  EXPECT_EQ(gptoss.start_after("<|start|>user<|message|>x<|end|>"), ReplyStart::reply);
  EXPECT_EQ(gptoss.start_after(""), ReplyStart::reply);
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
  const Case inside{format_of("qwen3"), ReplyStart::inside_reasoning};
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

TEST(chat_template_reply, LaterDeepSeekCalls) {
  const Case deepseek{format_of("deepseek_v3")};
  expect_parts(deepseek,
               "Ok.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": 1}<｜tool▁call▁end｜>"
               "<｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
               {content("Ok."), call("f", R"({"a":1})"), call("g", "{}")});
}

TEST(chat_template_reply, Channels) {
  const Case gptoss{format_of("gptoss")};
  expect_parts(gptoss,
               "<|channel|>analysis<|message|>They say \"hi\".\n<|end|><|start|>assistant<|channel|>final"
               "<|message|>\nHello <b>\n<|return|>",
               {reasoning("They say \"hi\".\n"), content("\nHello <b>\n")});
  // What ends the reply is not always part of its text.
  expect_parts(gptoss, "<|channel|>final<|message|>Hello <|en", {content("Hello <|en")});
  expect_parts(gptoss, "<|channel|>analysis<|message|>why", {reasoning("why")});
  // A second message of a kind begins a line; commentary for nobody is for the user.
  expect_parts(
      gptoss,
      "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>analysis<|message|>b<|end|>\n"
      "<|start|>assistant<|channel|>commentary<|message|>c<|end|><|start|>assistant<|message|>d<|end|>",
      {reasoning("a\nb"), content("c\nd")});
  // A message that is not ended before the next.
  expect_parts(gptoss, "<|channel|>analysis<|message|>a<|start|>assistant<|channel|>final<|message|>b",
               {reasoning("a"), content("b")});
  // Cut off in a header.
  expect_parts(gptoss, "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>fin",
               {reasoning("a")});
  expect_parts(gptoss, "<|channel|>analysis<|message|>a<|end|>\n", {reasoning("a")});
  expect_parts({gptoss.format, ReplyStart::inside_content}, "Hi<|return|>", {content("Hi")});
  expect_parts({gptoss.format, ReplyStart::inside_reasoning},
               "why<|end|><|start|>assistant<|channel|>final<|message|>so",
               {reasoning("why"), content("so")});
}

TEST(chat_template_reply, ChannelCalls) {
  const Case gptoss{format_of("gptoss")};
  // The receiver stands before the channel or after it.
  expect_parts(
      gptoss,
      "<|channel|>analysis<|message|>look<|end|><|start|>assistant to=functions.f<|channel|>commentary "
      "json<|message|>{\"a\": \"x<|call|>\\\"<|start|>\"}<|call|><|start|>assistant<|channel|>commentary "
      "to=functions.g<|constrain|>json<|message|>{\"b\": [1]}<|call|>",
      {reasoning("look"), call("f", R"({"a":"x<|call|>\"<|start|>"})"), call("g", R"({"b":[1]})")});
  // The end of the reply ends the call; no arguments are an empty object.
  expect_parts(gptoss, "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\":1}",
               {call("f", R"({"a":1})")});
  expect_parts(gptoss, " to=functions.ping<|channel|>commentary<|message|><|call|>", {call("ping", "{}")});
  // Of other tools, the whole name.
  expect_parts(gptoss, "<|channel|>analysis to=browser.search<|message|>{\"query\":\"q\"}<|call|>",
               {call("browser.search", R"({"query":"q"})")});
}

TEST(chat_template_reply, ChannelsThatCannotBeUnderstoodAreContent) {
  const Case gptoss{format_of("gptoss")};
  expect_parts(gptoss, "just text, < <| and <|message|> too<|return|>",
               {content("just text, < <| and <|message|> too")});
  expect_parts(gptoss, "assistants help", {content("assistants help")});
  expect_parts(gptoss, "assistant " + std::string(1000, 'x'),
               {content("assistant " + std::string(1000, 'x'))});
  expect_parts(gptoss, "<|channel|>final<|end|>x", {content("<|channel|>final\nx")});
  const std::string header = "<|channel|>commentary to=functions.f<|message|>";
  expect_parts(gptoss, header + "[1]<|call|>", {content(header + "[1]<|call|>")});
  expect_parts(gptoss, header + "{\"a\": 1, ", {content(header + "{\"a\": 1, ")});
  expect_parts(gptoss, header + "{\"open<|call|>" + header + "{}<|call|>",
               {content(header + "{\"open"), call("f", "{}")});
  expect_parts(gptoss, "<|channel|>commentary to=<|message|>{}<|call|>",
               {content("<|channel|>commentary to=<|message|>{}<|call|>")});
}

// Printing what was read goes as deep as the brackets do.
TEST(chat_template_reply, ArgumentsThatAreNestedWithoutEndAreContent) {
  const std::string deep(200000, '[');
  const std::string reply = "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": " + deep +
                            std::string(200000, ']') + "}}</tool_call>";
  EXPECT_EQ(parse({format_of("qwen3")}, {reply}), Parts{content(reply)});
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
