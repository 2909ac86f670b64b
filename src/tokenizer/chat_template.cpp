#include "tokenizer/chat_template.h"

#include "base/error.h"
#include "base/mapped_file.h"
#include "tokenizer/jinja/interpreter.h"
#include "tokenizer/jinja/parser.h"
#include "tokenizer/tokenizer_config.h"

namespace tagalong::tokenizer {

using Json = nlohmann::ordered_json;

struct ChatTemplate::Parsed {
  std::string source;
  jinja::Block block;
  Json special_tokens = Json::object();
};

std::shared_ptr<ChatTemplate::Parsed> ChatTemplate::parse_source(std::string_view source) {
  auto parsed = std::make_shared<Parsed>();
  parsed->source = source;
  parsed->block = jinja::parse(source);
  return parsed;
}

ChatTemplate ChatTemplate::parse(std::string_view source, const Json& special_tokens) {
  const auto parsed = parse_source(source);
  parsed->special_tokens = special_tokens;
  return ChatTemplate(parsed);
}

std::optional<ChatTemplate> ChatTemplate::load(const std::filesystem::path& model_dir) {
  const auto file = model_dir / "chat_template.jinja";
  const TokenizerConfig config = TokenizerConfig::read(model_dir);
  const bool in_file = std::filesystem::exists(file);
  const auto source = in_file ? base::read_text_file(file) : config.chat_template;
  if (!source) return std::nullopt;
  std::shared_ptr<Parsed> parsed;
  try {
    parsed = parse_source(*source);
  } catch (const base::InputError& error) {
    throw base::input_error("{}: {}", in_file ? file.string() : config.path, error.what());
  }
  parsed->special_tokens = config.special_tokens;
  return ChatTemplate(std::move(parsed));
}

std::string ChatTemplate::render(const Json& context, const RenderOptions& options) const {
  return render_marked(context, options).text;
}

RenderedChat ChatTemplate::render_marked(const Json& context, const RenderOptions& options) const {
  if (!context.is_object()) throw base::input_error("chat template: the context is not an object");
  const Json& special = parsed_->special_tokens;
  std::vector<std::pair<std::string, jinja::Value>> variables;
  for (const auto& [name, value] : context.items()) {
    const bool is_special = special.contains(name) && special[name] == value;
    variables.emplace_back(
        name, jinja::from_json(value, is_special ? jinja::Origin::trusted : jinja::Origin::user));
  }
  for (const auto& [name, value] : special.items()) {
    if (!context.contains(name))
      variables.emplace_back(name, jinja::from_json(value, jinja::Origin::trusted));
  }
  const jinja::Limits limits{.steps = options.max_steps, .text_bytes = options.max_text_bytes};
  jinja::Interpreter interpreter(limits, options.now.value_or(std::time(nullptr)));
  jinja::Text text = interpreter.render(parsed_->block, std::move(variables));
  return {std::move(text.bytes), std::move(text.user)};
}

const std::string& ChatTemplate::source() const { return parsed_->source; }

}  // namespace tagalong::tokenizer
