// tagalong logits: the model's logits for a given text, as raw numbers, to compare with another
// implementation's.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "commands.h"
#include "engine/logits_hash.h"
#include "engine/teacher.h"
#include "model_options.h"
#include "whole_file.h"

namespace tagalong::tools {

namespace {

struct LogitsOptions {
  ModelOptions model;
  std::filesystem::path ids;  // either of these
  std::filesystem::path text;
  std::filesystem::path out;
};

std::vector<std::int32_t> parse_ids(const std::filesystem::path& path, int vocab) {
  const std::string file = base::read_text_file(path);
  constexpr std::string_view kSpace = " \t\r\n";
  std::vector<std::int32_t> ids;
  for (std::size_t at = file.find_first_not_of(kSpace); at != std::string::npos;
       at = file.find_first_not_of(kSpace, at)) {
    const std::size_t end = std::min(file.find_first_of(kSpace, at), file.size());
    const std::string_view word = std::string_view(file).substr(at, end - at);
    std::int32_t id = -1;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || stop != word.data() + word.size() || id < 0 || id >= vocab) {
      throw base::input_error("{}: '{}' is not a token id from 0 to {}", path.string(), word, vocab - 1);
    }
    ids.push_back(id);
    at = end;
  }
  return ids;
}

std::vector<std::int32_t> read_tokens(const LogitsOptions& options, const TextModel& loaded) {
  const models::ModelInfo& info = loaded.model->info();
  const bool from_ids = !options.ids.empty();
  const std::filesystem::path& source = from_ids ? options.ids : options.text;
  std::vector<std::int32_t> tokens =
      from_ids ? parse_ids(source, info.vocab) : loaded.tokenizer.encode(base::read_text_file(source));
  if (tokens.empty()) throw base::input_error("{}: no tokens", source.string());
  if (tokens.size() > static_cast<std::size_t>(info.max_context)) {
    throw base::input_error("{}: {} tokens, but the context holds {}", source.string(), tokens.size(),
                            info.max_context);
  }
  return tokens;
}

void write_logits(const LogitsOptions& options) {
  TextModel loaded(options.model);
  const std::vector<std::int32_t> tokens = read_tokens(options, loaded);
  engine::Teacher teacher(
      *loaded.model, loaded.pool,
      {.tokens = static_cast<int>(tokens.size()), .kv_type = cache::parse_kv_type(options.model.kv_type)});
  WholeFile file(options.out);
  std::uint64_t hash = 0;
  teacher.prompt(0, tokens, [&](int, std::span<const float> logits) {
    file.stream().write(reinterpret_cast<const char*>(logits.data()),
                        static_cast<std::streamsize>(logits.size_bytes()));
    hash = engine::hash_logits(logits);
  });
  file.finish();
  fmt::print(stderr, "{} tokens, {} logits each, {}, last logits {:016x}\n", tokens.size(),
             loaded.model->info().vocab, loaded.kernels.name, hash);
}

}  // namespace

void add_logits_command(CLI::App& app) {
  auto options = std::make_shared<LogitsOptions>();
  CLI::App* command =
      app.add_subcommand("logits", "Write a text's logits as raw float32, [tokens, vocabulary]");
  add_model_options(*command, options->model);
  CLI::Option_group* source = command->add_option_group("Text", "Exactly one of these");
  source->add_option("--ids", options->ids, "File of token ids, separated by spaces or newlines");
  source->add_option("--text", options->text, "File of text, which the model's tokenizer encodes");
  source->require_option(1);
  command->add_option("--out", options->out, "File to write")->required();
  command->callback([options] { write_logits(*options); });
}

}  // namespace tagalong::tools
