#include "tokenizer/tokenizer_config.h"

#include "base/error.h"
#include "base/mapped_file.h"
#include "tokenizer/utf8.h"

namespace tagalong::tokenizer {
namespace {

using Json = nlohmann::ordered_json;

bool boolean(const Json& config, const char* key, const std::string& path) {
  const auto entry = config.find(key);
  if (entry == config.end() || entry->is_null()) return false;
  if (!entry->is_boolean()) throw base::input_error("{}: {} is neither true nor false", path, key);
  return entry->get<bool>();
}

// A text, or a list of named ones.
std::optional<std::string> template_of(const Json& config, const std::string& path) {
  const auto entry = config.find("chat_template");
  if (entry == config.end() || entry->is_null()) return std::nullopt;
  if (entry->is_string()) return entry->get<std::string>();
  if (!entry->is_array()) throw base::input_error("{}: chat_template is neither text nor a list", path);
  for (const Json& named : *entry) {
    const bool is_default = named.is_object() && named.contains("name") && named["name"] == "default";
    if (is_default && named.contains("template") && named["template"].is_string()) {
      return named["template"].get<std::string>();
    }
  }
  throw base::input_error("{}: none of the chat templates is called \"default\"", path);
}

}  // namespace

TokenizerConfig TokenizerConfig::read(const std::filesystem::path& model_dir) {
  const auto path = model_dir / "tokenizer_config.json";
  if (std::filesystem::exists(path)) return parse(base::read_text_file(path), path.string());
  TokenizerConfig absent;
  absent.path = path.string();
  return absent;
}

TokenizerConfig TokenizerConfig::parse(const std::string& json, const std::string& path) {
  require_utf8(json, path);
  // The file gives 1e30, written out, for "no limit": a reader that knows 64-bit integers only would refuse
  // it.
  Json root;
  try {
    root = Json::parse(json);
  } catch (const Json::exception& error) {
    throw base::input_error("{}: not valid JSON: {}", path, error.what());
  }
  if (!root.is_object()) throw base::input_error("{}: not a JSON object", path);
  TokenizerConfig config;
  config.path = path;
  for (const auto& [key, value] : root.items()) {
    if (!key.ends_with("_token") || key.starts_with("add_") || value.is_null()) continue;
    // A special token is written as its text or as an object with the text.
    const Json& text = value.is_object() && value.contains("content") ? value["content"] : value;
    if (!text.is_string()) throw base::input_error("{}: {} is not a token's text", path, key);
    config.special_tokens[key] = text;
  }
  config.add_bos = boolean(root, "add_bos_token", path);
  config.add_eos = boolean(root, "add_eos_token", path);
  config.chat_template = template_of(root, path);
  return config;
}

}  // namespace tagalong::tokenizer
