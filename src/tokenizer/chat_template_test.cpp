#include "tokenizer/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <string>

#include "base/error.h"
#include "tokenizer/golden_testing.h"

namespace tagalong::tokenizer {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

// That of tests/golden/template/environment.py, in UTC.
RenderOptions recorded_clock() {
  setenv("TZ", "UTC", 1);
  tzset();
  return {.now = 1767182400};
}

Json golden_json(const std::string& name) { return Json::parse(golden_file("template/" + name)); }

// The output, or null if the template or the rendering is refused; `why` then has the reason.
Json outcome(const std::string& source, const Json& context, std::string& why) {
  try {
    return ChatTemplate::parse(source).render(context, recorded_clock());
  } catch (const base::InputError& error) {
    why = error.what();
    return nullptr;
  }
}

class Recorded : public testing::TestWithParam<std::string_view> {};

TEST_P(Recorded, EveryConversationRendersAsWithPython) {
  const std::string name(GetParam());
  const std::string source = golden_file("template/" + name + ".jinja");
  const Json contexts = golden_json("conversations.json");
  const Json outputs = golden_json(name + ".json");
  ASSERT_EQ(contexts.size(), outputs.size());
  for (const auto& [key, context] : contexts.items()) {
    std::string why;
    const Json output = outcome(source, context, why);
    EXPECT_EQ(output, outputs[key]) << key << " " << why;
  }
}

INSTANTIATE_TEST_SUITE_P(Templates, Recorded, testing::Values("qwen3", "deepseek_v3", "gptoss", "glm", "storyteller"),
                         [](const auto& param) { return std::string(param.param); });

TEST(Template, TheLanguageIsThatOfJinja2) {
  const Json rows = golden_json("language.json");
  ASSERT_GT(rows.size(), 400u);
  for (std::size_t i = 1; i < rows.size(); ++i) {
    std::string why;
    const Json output = outcome(rows[i][0].get<std::string>(), rows[0], why);
    EXPECT_EQ(output, rows[i][1]) << rows[i][0] << " " << why;
  }
}

}  // namespace
}  // namespace tagalong::tokenizer
