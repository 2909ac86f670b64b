// `tagalong template MODEL MESSAGES`: a conversation as the text, or the ids, that the model would continue.
//
// Loads no weights. Runs on main's thread.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "commands.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_config.h"

namespace tagalong::tools {
namespace {

using nlohmann::ordered_json;
using tokenizer::ChatTemplate;

struct TemplateOptions {
  std::filesystem::path model;
  std::string messages;
  std::filesystem::path file;
  std::vector<std::string> set;
  bool no_generation_prompt = false;
  bool ids = false;
  bool marks = false;
  bool batch = false;
};

ordered_json parse(const std::string& text, const std::string& name) {
  try {
    return ordered_json::parse(text);
  } catch (const ordered_json::exception& error) {
    throw base::input_error("{}: not valid JSON: {}", name, error.what());
  }
}

ChatTemplate load(const TemplateOptions& options) {
  if (!options.file.empty()) {
    return ChatTemplate::parse(base::read_text_file(options.file),
                               tokenizer::TokenizerConfig::read(options.model).special_tokens);
  }
  auto loaded = ChatTemplate::load(options.model);
  if (!loaded) throw base::input_error("{}: the model has no chat template", options.model.string());
  return std::move(*loaded);
}

// A list of messages, or an object with all that the template sees.
ordered_json read_context(const TemplateOptions& options) {
  const bool from_stdin = options.messages == "-";
  const std::string text =
      from_stdin ? std::string(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>())
                 : base::read_text_file(options.messages);
  const std::string name = from_stdin ? "standard input" : options.messages;
  ordered_json json = parse(text, name);
  if (json.is_array()) json = ordered_json{{"messages", json}};
  if (!json.is_object()) throw base::input_error("{}: neither a list of messages nor an object", name);
  for (const std::string& assignment : options.set) {
    const std::size_t equals = assignment.find('=');
    if (equals == assignment.npos) throw base::input_error("--set {}: expected NAME=JSON", assignment);
    json[assignment.substr(0, equals)] = parse(assignment.substr(equals + 1), "--set " + assignment);
  }
  if (!json.contains("add_generation_prompt")) json["add_generation_prompt"] = !options.no_generation_prompt;
  return json;
}

// [template, context] a line in, the text, or null where it is refused, a line out.
void batch() {
  std::string line;
  while (std::getline(std::cin, line)) {
    const ordered_json row = parse(line, "--batch");
    if (!row.is_array() || row.size() != 2 || !row[0].is_string()) {
      throw base::input_error("--batch: a line is not [template, context]");
    }
    ordered_json output;
    try {
      output = ChatTemplate::parse(row[0].get_ref<const std::string&>()).render(row[1]);
    } catch (const base::InputError&) {
      output = nullptr;
    }
    fmt::print("{}\n", output.dump());
  }
}

void render(const TemplateOptions& options) {
  if (options.batch) return batch();
  const ChatTemplate chat_template = load(options);
  const tokenizer::RenderedChat chat = chat_template.render_marked(read_context(options));
  if (options.ids) {
    const auto model = tokenizer::Tokenizer::load(options.model);
    const auto ids = model.encode(chat.text, {.add_special_tokens = false, .user_text = chat.user_text});
    fmt::print("{}\n", fmt::join(ids, " "));
  } else if (options.marks) {
    ordered_json ranges = ordered_json::array();
    for (const auto& range : chat.user_text) ranges.push_back({range.begin, range.end});
    fmt::print("{}\n", ordered_json{{"text", chat.text}, {"user_text", ranges}}.dump(2));
  } else {
    fmt::print("{}", chat.text);
  }
}

}  // namespace

void add_template_command(CLI::App& app) {
  auto options = std::make_shared<TemplateOptions>();
  CLI::App* command = app.add_subcommand("template", "A conversation as the model sees it");
  auto* model = command->add_option("model", options->model, "Folder with tokenizer_config.json");
  auto* messages =
      command->add_option("messages", options->messages,
                          "JSON file with a list of messages, or with all that the template sees; "
                          "- for standard input");
  command->add_option("--template", options->file, "Use this template instead of the model's");
  command->add_option("--set", options->set, "NAME=JSON: one more variable, such as enable_thinking=false");
  command->add_flag("--no-generation-prompt", options->no_generation_prompt, "Do not begin the model's turn");
  auto* ids = command->add_flag("--ids", options->ids, "Print token ids");
  auto* marks =
      command->add_flag("--marks", options->marks, "Print JSON with what came from the conversation");
  auto* batch = command->add_flag(
      "--batch", options->batch, "JSON [template, context] a line in, the text or null a line out; no MODEL");
  ids->excludes(marks);
  batch->excludes(ids)->excludes(marks)->excludes(model)->excludes(messages);
  command->callback([options, model, messages] {
    if (!options->batch && (model->count() == 0 || messages->count() == 0)) {
      throw CLI::ValidationError("template", "MODEL and MESSAGES are needed");
    }
    render(*options);
  });
}

}  // namespace tagalong::tools
