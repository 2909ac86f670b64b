#include "tokenizer/chat_template.h"

#include "base/error.h"
#include "base/mapped_file.h"
#include "tokenizer/jinja/interpreter.h"
#include "tokenizer/jinja/parser.h"
#include "tokenizer/utf8.h"

namespace tagalong::tokenizer {
namespace {

using Json = nlohmann::ordered_json;

// "chat_template" is a text, or a list of named ones.
std::optional<std::string> template_of(const Json& config, const std::string& path) {
  const auto entry = config.find("chat_template");
  if (entry == config.end() || entry->is_null()) return std::nullopt;
  if (entry->is_string()) return entry->get<std::string>();
  if (!entry->is_array()) throw base::input_error("{}: chat_template is neither text nor a list", path);
  for (const Json& named : *entry) {
    if (named.is_object() && named.value("name", Json()) == "default" && named.contains("template") &&
        named["template"].is_string()) {
      return named["template"].get<std::string>();
    }
  }
  throw base::input_error("{}: none of the chat templates is called \"default\"", path);
}

Json special_tokens_of(const Json& config) {
  Json tokens = Json::object();
  for (const auto& [key, value] : config.items()) {
    if (!key.ends_with("_token")) continue;
    if (value.is_string()) tokens[key] = value;
    if (value.is_object() && value.contains("content")) tokens[key] = value["content"];
  }
  return tokens;
}

Json read_config(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return Json::object();
  const std::string text = base::read_text_file(path);
  require_utf8(text, path.string());
  Json config = Json::parse(text, nullptr, false);
  if (!config.is_object()) throw base::input_error("{}: not a JSON object", path.string());
  return config;
}

}  // namespace

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

ChatTemplate ChatTemplate::parse(std::string_view source) { return ChatTemplate(parse_source(source)); }

std::optional<ChatTemplate> ChatTemplate::load(const std::filesystem::path& model_dir) {
  const auto config_path = model_dir / "tokenizer_config.json";
  const auto file_path = model_dir / "chat_template.jinja";
  const Json config = read_config(config_path);
  const bool in_file = std::filesystem::exists(file_path);
  const auto source = in_file ? base::read_text_file(file_path) : template_of(config, config_path.string());
  if (!source) return std::nullopt;
  std::shared_ptr<Parsed> parsed;
  try {
    parsed = parse_source(*source);
  } catch (const base::InputError& error) {
    throw base::input_error("{}: {}", (in_file ? file_path : config_path).string(), error.what());
  }
  parsed->special_tokens = special_tokens_of(config);
  return ChatTemplate(std::move(parsed));
}

std::string ChatTemplate::render(const Json& context, const RenderOptions& options) const {
  return render_marked(context, options).text;
}

RenderedChat ChatTemplate::render_marked(const Json& context, const RenderOptions& options) const {
  if (!context.is_object()) throw base::input_error("chat template: the context is not an object");
  std::vector<std::pair<std::string, jinja::Value>> variables;
  for (const auto& [name, value] : context.items()) {
    const auto origin = name.ends_with("_token") ? jinja::Origin::trusted : jinja::Origin::user;
    variables.emplace_back(name, jinja::from_json(value, origin));
  }
  const jinja::Limits limits{.steps = options.max_steps, .text_bytes = options.max_text_bytes};
  jinja::Interpreter interpreter(limits, options.now.value_or(std::time(nullptr)));
  jinja::Text text = interpreter.render(parsed_->block, std::move(variables));
  return {std::move(text.bytes), std::move(text.user)};
}

const std::string& ChatTemplate::source() const { return parsed_->source; }

const Json& ChatTemplate::special_tokens() const { return parsed_->special_tokens; }

}  // namespace tagalong::tokenizer
