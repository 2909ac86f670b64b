// `tagalong tokenize MODEL`: text to token ids and back, with the model's own tokenizer.
//
// Loads no weights. Runs on main's thread.
#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "commands.h"
#include "tokenizer/stream_decoder.h"
#include "tokenizer/tokenizer.h"

namespace tagalong::tools {
namespace {

using nlohmann::ordered_json;
using tokenizer::Tokenizer;

struct TokenizeOptions {
  std::filesystem::path model;
  std::string text;
  std::filesystem::path file;
  bool text_given = false;
  bool decode = false;
  bool offsets = false;
  bool count = false;
  bool json = false;
  bool batch = false;
  bool verify = false;
  bool no_special = false;
  bool text_only = false;
};

std::string input(const TokenizeOptions& options) {
  if (options.text_given) return options.text;
  if (!options.file.empty()) return base::read_text_file(options.file, std::size_t{1} << 31);
  return std::string(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
}

tokenizer::EncodeOptions encode_options(const TokenizeOptions& options) {
  return {.add_special_tokens = !options.no_special, .match_special = !options.text_only};
}

// Ids between blanks, commas and brackets.
std::vector<std::int32_t> parse_ids(std::string_view text) {
  constexpr std::string_view kBetween = " \t\r\n,[]";
  std::vector<std::int32_t> ids;
  for (std::size_t at = text.find_first_not_of(kBetween); at != text.npos;) {
    const std::size_t end = std::min(text.find_first_of(kBetween, at), text.size());
    const std::string_view word = text.substr(at, end - at);
    std::int32_t id = 0;
    const auto parsed = std::from_chars(word.data(), word.data() + word.size(), id);
    if (parsed.ec != std::errc() || parsed.ptr != word.data() + word.size()) {
      throw base::input_error("\"{}\" is no token id", word);
    }
    ids.push_back(id);
    at = text.find_first_not_of(kBetween, end);
  }
  return ids;
}

// As a JSON string; what is only part of a character becomes U+FFFD.
std::string quoted(const std::string& bytes) {
  return ordered_json(bytes).dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string stream(const Tokenizer& model, const std::vector<std::int32_t>& ids) {
  tokenizer::StreamDecoder decoder(model);
  std::string text;
  for (const std::int32_t id : ids) text += decoder.push(id);
  return text + decoder.finish();
}

void verify(const Tokenizer& model, const std::string& text, const TokenizeOptions& options) {
  const auto plain =
      tokenizer::EncodeOptions{.add_special_tokens = false, .match_special = !options.text_only};
  const auto ids = model.encode(text, plain);
  const std::string back = model.decode(ids);
  const bool same_stream = stream(model, ids) == back;
  const bool same_ids = model.encode(back, plain) == ids;
  fmt::print("{} bytes, {} tokens\n", text.size(), ids.size());
  fmt::print("text after encoding and decoding: {}\n", back == text ? "the same" : "normalised, or changed");
  fmt::print("decoded token by token:           {}\n", same_stream ? "the same" : "DIFFERENT");
  fmt::print("ids after decoding and encoding:  {}\n", same_ids ? "the same" : "DIFFERENT");
  if (!same_stream || !same_ids) throw CLI::RuntimeError(1);
}

// A JSON string a line becomes a list of ids a line, and a list of ids a string.
void batch(const Tokenizer& model, const TokenizeOptions& options) {
  std::string line;
  while (std::getline(std::cin, line)) {
    const auto json = ordered_json::parse(line, nullptr, false);
    if (json.is_string()) {
      fmt::print(
          "{}\n",
          ordered_json(model.encode(json.get_ref<const std::string&>(), encode_options(options))).dump());
    } else if (json.is_array()) {
      fmt::print("{}\n", ordered_json(model.decode(parse_ids(line))).dump());
    } else {
      throw base::input_error("--batch: a line is neither a JSON string nor a list of ids: {}",
                              line.substr(0, 80));
    }
  }
}

void print_tokens(const Tokenizer& model, const std::string& text, const TokenizeOptions& options) {
  const auto tokens = model.encode_with_offsets(text, encode_options(options));
  if (options.json) {
    ordered_json rows = ordered_json::array();
    for (const auto& token : tokens) {
      rows.push_back({{"id", token.id},
                      {"begin", token.range.begin},
                      {"end", token.range.end},
                      {"text", std::string(model.token_text(token.id))},
                      {"special", model.is_special(token.id)}});
    }
    fmt::print("{}\n", rows.dump());
    return;
  }
  for (const auto& token : tokens) {
    fmt::print("{:>8} {:>8}..{:<8} {}{}\n", token.id, token.range.begin, token.range.end,
               quoted(model.token_bytes(token.id)), model.is_special(token.id) ? "  special" : "");
  }
}

void tokenize(const TokenizeOptions& options) {
  const Tokenizer model = Tokenizer::load(options.model);
  if (options.batch) return batch(model, options);
  const std::string text = input(options);
  if (options.decode) {
    const std::string decoded = model.decode(parse_ids(text));
    fmt::print("{}\n", options.json ? ordered_json(decoded).dump() : decoded);
    return;
  }
  if (options.verify) return verify(model, text, options);
  if (options.offsets) return print_tokens(model, text, options);
  const auto ids = model.encode(text, encode_options(options));
  if (options.count) {
    fmt::print("{}\n", options.json ? ordered_json{{"tokens", ids.size()}, {"bytes", text.size()}}.dump()
                                    : fmt::format("{} tokens, {} bytes", ids.size(), text.size()));
  } else if (options.json) {
    fmt::print("{}\n", ordered_json(ids).dump());
  } else {
    fmt::print("{}\n", fmt::join(ids, " "));
  }
}

}  // namespace

void add_tokenize_command(CLI::App& app) {
  auto options = std::make_shared<TokenizeOptions>();
  CLI::App* command = app.add_subcommand("tokenize", "Text to token ids and back");
  command->add_option("model", options->model, "Folder with tokenizer.json")->required();
  auto* text = command->add_option("text", options->text, "The text; else --file, else standard input");
  auto* file = command->add_option("-f,--file", options->file, "Read the text from a file")->excludes(text);
  auto* decode = command->add_flag("-d,--decode", options->decode, "The input is ids; print their text");
  auto* offsets =
      command->add_flag("-o,--offsets", options->offsets, "One token a line, with its bytes of the text");
  auto* count = command->add_flag("-c,--count", options->count, "Print how many tokens there are");
  auto* verify =
      command->add_flag("--verify", options->verify, "Check that text and ids survive the round trip");
  command->add_flag("--json", options->json, "Print JSON");
  auto* batch = command->add_flag("--batch", options->batch,
                                  "A JSON string or a list of ids a line in, the other one a line out");
  command->add_flag("--no-special", options->no_special, "Add nothing before or after, such as BOS");
  command->add_flag("--text-only", options->text_only, "Text that looks like a control token stays text");
  const std::vector<CLI::Option*> modes = {decode, offsets, count, verify, batch};
  for (CLI::Option* mode : modes) {
    for (CLI::Option* other : modes) {
      if (mode != other) mode->excludes(other);
    }
  }
  batch->excludes(text)->excludes(file);
  command->callback([options, text] {
    options->text_given = text->count() > 0;
    tokenize(*options);
  });
}

}  // namespace tagalong::tools
