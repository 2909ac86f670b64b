// tokenizer_config.json: what a model says about its special tokens and its chat template.
//
// Plain data; any thread.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace tagalong::tokenizer {

struct TokenizerConfig {
  std::string path;  // for errors
  // Each "..._token" that is given, by its text.
  nlohmann::ordered_json special_tokens = nlohmann::ordered_json::object();
  bool add_bos = false;
  bool add_eos = false;
  std::optional<std::string> chat_template;

  // All of it is absent if the file is. Throws InputError naming the file and the key.
  static TokenizerConfig read(const std::filesystem::path& model_dir);
  static TokenizerConfig parse(const std::string& json, const std::string& path);
};

}  // namespace tagalong::tokenizer
