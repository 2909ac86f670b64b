// A model's chat template: a conversation becomes the text that the model continues.
//
// Immutable once parsed and cheap to copy: any number of threads may render at once. Never falls back to
// another template, and never runs longer than its limits.
#pragma once

#include <ctime>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace tagalong::tokenizer {

// A rendered conversation. The ranges are what came from the conversation rather than from the template: give
// them to EncodeOptions::user_text, and no control token is matched in what a user wrote.
struct RenderedChat {
  std::string text;
  std::vector<ByteRange> user_text;
};

struct RenderOptions {
  // For strftime_now; absent: the clock.
  std::optional<std::time_t> now = {};
  std::size_t max_steps = 10'000'000;
  std::size_t max_text_bytes = std::size_t{16} << 20;
};

class ChatTemplate {
 public:
  // chat_template.jinja, or else "chat_template" of tokenizer_config.json; nothing if the model has neither.
  // Throws InputError if there is one and it is not understood.
  static std::optional<ChatTemplate> load(const std::filesystem::path& model_dir);
  // `special_tokens` as in tokenizer_config.json: bos_token, eos_token and their like, by their text.
  static ChatTemplate parse(std::string_view source,
                            const nlohmann::ordered_json& special_tokens = nlohmann::ordered_json::object());

  // `context` is an object with the template's variables: messages, tools, add_generation_prompt and whatever
  // else it asks for. The model's special tokens are there unless the context sets them. All strings of the
  // context count as the user's, but those that are the model's special tokens under the same names.
  // Throws InputError naming the line, also when the template itself refuses the conversation.
  std::string render(const nlohmann::ordered_json& context, const RenderOptions& options = {}) const;
  RenderedChat render_marked(const nlohmann::ordered_json& context, const RenderOptions& options = {}) const;

  const std::string& source() const;

 private:
  struct Parsed;
  explicit ChatTemplate(std::shared_ptr<const Parsed> parsed) : parsed_(std::move(parsed)) {}
  static std::shared_ptr<Parsed> parse_source(std::string_view source);

  std::shared_ptr<const Parsed> parsed_;
};

}  // namespace tagalong::tokenizer
