#include "server/openai_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "server/api_error.h"

namespace tagalong::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr RequestLimits kLimits{.vocab = 100, .max_choices = 16};

OpenAiRequest completion(const std::string& text) {
  return parse_completion_request(parse_json_body(text), kLimits);
}
OpenAiRequest chat(const std::string& text) { return parse_chat_request(parse_json_body(text), kLimits); }

// A request with a valid prompt and one more field.
std::string with(const std::string& field) { return R"({"prompt":"p",)" + field + "}"; }
std::string chat_with(const std::string& field) {
  return R"({"messages":[{"role":"user","content":"hi"}],)" + field + "}";
}

// The error that `parse` throws; a failure if it throws none.
template <typename F>
ApiError error_of(F parse) {
  try {
    parse();
  } catch (const ApiException& e) {
    return e.error;
  }
  ADD_FAILURE() << "no error";
  return {};
}

ApiError completion_error(const std::string& text) {
  return error_of([&] { completion(text); });
}
ApiError chat_error(const std::string& text) {
  return error_of([&] { chat(text); });
}

TEST(JsonBody, MustBeOneJsonObjectInUtf8) {
  for (const std::string text :
       {"", " ", "nonsense", "{\"prompt\":\"p\"", "{}x", "[1]", "\"x\"", "null", "{\"a\":1e400}",
        "{\"a\":\"\xB0\xA1\"}", "{\"a\":\"\\ud83d\"}", "{'a':1}", "{\"a\":1,}"}) {
    const ApiError error = error_of([&] { parse_json_body(text); });
    EXPECT_EQ(error.status, 400) << text;
    EXPECT_EQ(error.code, "invalid_json") << text;
  }
}

TEST(JsonBody, TheMessageDoesNotQuoteTheBody) {
  const ApiError error = error_of([] { parse_json_body(R"({"prompt": "a secret" oops})"); });
  EXPECT_THAT(error.message, testing::Not(HasSubstr("secret")));
  EXPECT_THAT(error.message, testing::Not(HasSubstr("oops")));
}

TEST(JsonBody, NestingIsLimited) {
  const auto nested = [](int depth) {
    return R"({"a":)" + std::string(depth, '[') + std::string(depth, ']') + "}";
  };
  EXPECT_NO_THROW(parse_json_body(nested(63)));
  EXPECT_THROW(parse_json_body(nested(64)), ApiException);
  EXPECT_THROW(parse_json_body(nested(1'000'000)), ApiException);
  EXPECT_NO_THROW(parse_json_body(R"({"a":")" + std::string(1000, '[') + R"(\"[["})"))
      << "brackets in a string";
}

TEST(CompletionRequest, AbsentFieldsHaveTheServersDefaults) {
  const OpenAiRequest request = completion(R"({"prompt":"p"})");
  EXPECT_EQ(std::get<std::string>(request.prompts.at(0)), "p");
  EXPECT_FALSE(request.max_tokens);
  EXPECT_EQ(request.sampling.temperature, 1);
  EXPECT_FALSE(request.seed);
  EXPECT_EQ(request.n, 1);
  EXPECT_FALSE(request.stream);
  EXPECT_FALSE(request.logprobs);
}

TEST(CompletionRequest, NullIsTheSameAsAbsent) {
  const OpenAiRequest request = completion(with(
      R"("temperature":null,"stop":null,"seed":null,"top_p":null,"tools":null,"max_tokens":null,"n":null,"logit_bias":null,"stream":null,"stream_options":null,"logprobs":null,"whatever":null)"));
  EXPECT_EQ(request.sampling.temperature, 1);
  EXPECT_TRUE(request.stop.empty());
}

TEST(CompletionRequest, PromptsComeInFourForms) {
  EXPECT_EQ(completion(R"({"prompt":["a","b"]})").prompts.size(), 2U);
  const auto ids = completion(R"({"prompt":[1,2,99]})");
  EXPECT_THAT(std::get<1>(ids.prompts.at(0)), ElementsAre(1, 2, 99));
  const auto lists = completion(R"({"prompt":[[1],[2,3]]})");
  ASSERT_EQ(lists.prompts.size(), 2U);
  EXPECT_THAT(std::get<1>(lists.prompts[1]), ElementsAre(2, 3));
}

TEST(CompletionRequest, ABadPromptIsNamed) {
  for (const char* text :
       {"{}", R"({"prompt":null})", R"({"prompt":7})", R"({"prompt":[]})", R"({"prompt":{}})",
        R"({"prompt":["a",1]})", R"({"prompt":[1,"a"]})", R"({"prompt":[[1],"a"]})", R"({"prompt":[1.5]})",
        R"({"prompt":[-1]})", R"({"prompt":[100]})", R"({"prompt":[[1],[100]]})",
        R"({"prompt":[18446744073709551615]})", R"({"prompt":[[["a"]]]})", R"({"prompt":[null]})",
        R"({"prompt":[true]})"}) {
    const ApiError error = completion_error(text);
    EXPECT_EQ(error.status, 400) << text;
    EXPECT_EQ(error.param, "prompt") << text;
    EXPECT_EQ(error.type, "invalid_request_error") << text;
  }
}

TEST(CompletionRequest, TypesAndRangesAreStrictAndNameTheField) {
  const std::pair<const char*, const char*> kBad[] = {
      {"temperature", "\"hot\""},
      {"temperature", "-0.1"},
      {"temperature", "2.1"},
      {"temperature", "true"},
      {"top_p", "1.01"},
      {"top_p", "-1"},
      {"top_k", "-2"},
      {"top_k", "1.5"},
      {"top_k", "4294967296"},
      {"min_p", "2"},
      {"seed", "1.5"},
      {"seed", "\"1\""},
      {"seed", "18446744073709551616"},
      {"max_tokens", "-1"},
      {"max_tokens", "1.0"},
      {"max_tokens", "\"5\""},
      {"max_tokens", "18446744073709551615"},
      {"n", "0"},
      {"n", "129"},
      {"n", "17"},
      {"n", "true"},
      {"stop", "7"},
      {"stop", "[7]"},
      {"stop", "\"\""},
      {"stop", "[\"a\",\"\"]"},
      {"stop_token_ids", "5"},
      {"stop_token_ids", "[100]"},
      {"stream", "1"},
      {"stream", "\"true\""},
      {"echo", "0"},
      {"logprobs", "21"},
      {"logprobs", "true"},
      {"best_of", "2"},
      {"model", "5"},
      {"ignore_eos", "1"},
      {"stream_options", "{}"},
      {"routing", "\"exact\""},
  };
  for (const auto& [name, value] : kBad) {
    const ApiError error = completion_error(with(fmt::format("\"{}\":{}", name, value)));
    EXPECT_EQ(error.status, 400) << name << " " << value;
    EXPECT_EQ(error.param, name) << value;
    EXPECT_THAT(error.message, HasSubstr(name));
  }
}

TEST(CompletionRequest, LimitsThemselvesAreAllowed) {
  const OpenAiRequest request = completion(with(
      R"("temperature":2,"top_p":1,"top_k":2147483647,"min_p":1,"seed":18446744073709551615,"max_tokens":9223372036854775807,"n":16,"logprobs":20)"));
  EXPECT_EQ(request.seed, UINT64_MAX);
  EXPECT_EQ(request.max_tokens, INT32_MAX);
  EXPECT_EQ(request.n, 16);
  EXPECT_EQ(completion(with(R"("seed":-1)")).seed, UINT64_MAX);
  EXPECT_EQ(completion(with(R"("max_tokens":0)")).max_tokens, 0);
  EXPECT_EQ(completion(with(R"("top_k":-1)")).sampling.top_k, 0);
}

TEST(CompletionRequest, TopPZeroIsGreedy) {
  const OpenAiRequest request = completion(with(R"("top_p":0,"temperature":1.5)"));
  EXPECT_EQ(request.sampling.temperature, 0);
}

TEST(CompletionRequest, StopIsAStringOrAList) {
  EXPECT_THAT(completion(with(R"("stop":"x")")).stop, ElementsAre("x"));
  EXPECT_THAT(completion(with(R"("stop":["x","yz"])")).stop, ElementsAre("x", "yz"));
  EXPECT_TRUE(completion(with(R"("stop":[])")).stop.empty());
  std::string many = "\"stop\":[\"a\"";
  for (int i = 0; i < 32; ++i) many += ",\"a\"";
  EXPECT_EQ(completion_error(with(many + "]")).param, "stop");
}

TEST(CompletionRequest, PromptsTimesNIsLimited) {
  const ApiError error = completion_error(R"({"prompt":["a","b","c"],"n":6})");
  EXPECT_EQ(error.param, "prompt");
  EXPECT_THAT(error.message, HasSubstr("16"));
}

TEST(CompletionRequest, StreamOptionsAreRead) {
  const OpenAiRequest request = completion(
      with(R"("stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true})"));
  EXPECT_TRUE(request.stream);
  EXPECT_TRUE(request.include_usage);
  EXPECT_TRUE(request.continuous_usage);
  EXPECT_EQ(completion_error(with(R"("stream":true,"stream_options":{"x":1})")).param, "stream_options.x");
  EXPECT_EQ(completion_error(with(R"("stream":true,"stream_options":{"include_usage":"yes"})")).param,
            "stream_options.include_usage");
}

TEST(CompletionRequest, RoutingNamesAPolicy) {
  EXPECT_EQ(completion(with(R"("routing":{"policy":"exact"})")).routing, "exact");
  EXPECT_EQ(completion_error(with(R"("routing":{})")).param, "routing.policy");
  EXPECT_EQ(completion_error(with(R"("routing":{"policy":1})")).param, "routing.policy");
  EXPECT_EQ(completion_error(with(R"("routing":{"policy":"oea","k0":3})")).param, "routing.k0");
}

TEST(CompletionRequest, LogprobsOfAnEchoedPromptAreRefused) {
  EXPECT_EQ(completion_error(with(R"("echo":true,"logprobs":1)")).param, "logprobs");
  EXPECT_TRUE(completion(with(R"("echo":true)")).echo);
}

TEST(CompletionRequest, UnsupportedFieldsPassOnlyWithTheValueThatChangesNothing) {
  EXPECT_NO_THROW(completion(with(
      R"("presence_penalty":0,"frequency_penalty":0.0,"repetition_penalty":1.0,"logit_bias":{},"best_of":1,"suffix":"","min_tokens":0)")));
  for (const char* field :
       {R"("presence_penalty":0.5)", R"("frequency_penalty":-1)", R"("repetition_penalty":1.1)",
        R"("logit_bias":{"5":-100})", R"("suffix":"x")", R"("min_tokens":3)",
        R"("response_format":{"type":"json_object"})", R"("allowed_token_ids":[1])"}) {
    const ApiError error = completion_error(with(field));
    EXPECT_EQ(error.status, 400) << field;
    EXPECT_EQ(error.code, "unsupported_parameter") << field;
  }
}

TEST(CompletionRequest, HarmlessFieldsAreIgnoredAndUnknownOnesAreNot) {
  EXPECT_NO_THROW(completion(with(R"("user":"u","metadata":{"a":"b"},"store":false)")));
  const ApiError error = completion_error(with(R"("temprature":0)"));
  EXPECT_EQ(error.param, "temprature");
  EXPECT_EQ(error.code, "unknown_parameter");
}

TEST(ChatRequest, MessagesAreReadInOrder) {
  const OpenAiRequest request = chat(
      R"({"messages":[{"role":"developer","content":"be brief"},{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"assistant","content":null,"refusal":null,"tool_calls":[],"annotations":[]}]})");
  EXPECT_EQ(
      request.messages.dump(),
      R"([{"role":"system","content":"be brief"},{"role":"user","content":"a\nb"},{"role":"assistant","content":""}])");
}

TEST(ChatRequest, ABadMessageIsNamed) {
  const std::pair<const char*, const char*> kBad[] = {
      {R"({})", "messages"},
      {R"({"messages":[]})", "messages"},
      {R"({"messages":"hi"})", "messages"},
      {R"({"messages":["hi"]})", "messages[0]"},
      {R"({"messages":[{"content":"x"}]})", "messages[0].role"},
      {R"({"messages":[{"role":"king","content":"x"}]})", "messages[0].role"},
      {R"({"messages":[{"role":"user"}]})", "messages[0].content"},
      {R"({"messages":[{"role":"user","content":7}]})", "messages[0].content"},
      {R"({"messages":[{"role":"user","content":["x"]}]})", "messages[0].content[0]"},
      {R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]})",
       "messages[0].content[0].type"},
      {R"({"messages":[{"role":"user","content":[{"type":"text"}]}]})", "messages[0].content[0].text"},
      {R"({"messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{}]}]})",
       "messages[1].tool_calls"},
      {R"({"messages":[{"role":"user","content":"x","mood":"good"}]})", "messages[0].mood"},
  };
  for (const auto& [text, param] : kBad) EXPECT_EQ(chat_error(text).param, param) << text;
}

TEST(ChatRequest, TheNewerTokenLimitWins) {
  EXPECT_EQ(chat(chat_with(R"("max_tokens":5)")).max_tokens, 5);
  EXPECT_EQ(chat(chat_with(R"("max_completion_tokens":6)")).max_tokens, 6);
  EXPECT_EQ(chat(chat_with(R"("max_tokens":5,"max_completion_tokens":6)")).max_tokens, 6);
  EXPECT_EQ(chat_error(chat_with(R"("max_completion_tokens":0)")).param, "max_completion_tokens");
}

TEST(ChatRequest, TopLogprobsNeedLogprobs) {
  EXPECT_EQ(chat(chat_with(R"("logprobs":true,"top_logprobs":3)")).logprobs, 3);
  EXPECT_EQ(chat(chat_with(R"("logprobs":true)")).logprobs, 0);
  EXPECT_FALSE(chat(chat_with(R"("logprobs":false,"top_logprobs":0)")).logprobs);
  EXPECT_EQ(chat_error(chat_with(R"("top_logprobs":3)")).param, "top_logprobs");
  EXPECT_EQ(chat_error(chat_with(R"("logprobs":1)")).param, "logprobs");
}

TEST(ChatRequest, ToolsAndSchemasAreRefusedNotIgnored) {
  for (const char* field : {R"("tools":[{"type":"function"}])", R"("tool_choice":"required")",
                            R"("response_format":{"type":"json_schema"})", R"("modalities":["audio"])"}) {
    EXPECT_EQ(chat_error(chat_with(field)).code, "unsupported_parameter") << field;
  }
  EXPECT_NO_THROW(chat(chat_with(R"("tools":[],"tool_choice":"auto","response_format":{"type":"text"})")));
}

TEST(ChatRequest, TemplateOptionsAreLimited) {
  EXPECT_EQ(chat(chat_with(R"("chat_template_kwargs":{"enable_thinking":false})")).template_options.dump(),
            R"({"enable_thinking":false})");
  EXPECT_EQ(chat_error(chat_with(R"("chat_template_kwargs":{"messages":[]})")).param, "chat_template_kwargs");
  EXPECT_EQ(
      chat_error(chat_with(R"("chat_template_kwargs":{"a":")" + std::string(20'000, 'x') + "\"}")).param,
      "chat_template_kwargs");
}

}  // namespace
}  // namespace tagalong::server
