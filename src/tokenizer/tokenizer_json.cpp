// Reading tokenizer.json, and applying tokenizer_config.json.
#include <simdjson.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/json_view.h"
#include "tokenizer/tokenizer_parts.h"
#include "tokenizer/utf8.h"

namespace tagalong::tokenizer {
namespace {

// Ids index tables; a file may not make them larger than this.
constexpr std::int64_t kMaxId = (1 << 22) - 1;

simdjson::dom::element parse_document(simdjson::dom::parser& parser, std::string_view json,
                                      std::string_view name) {
  simdjson::dom::element document;
  if (const auto error = parser.parse(json.data(), json.size()).get(document)) {
    const std::string_view hint = error == simdjson::STRING_ERROR ? " (half of a surrogate pair?)" : "";
    throw base::input_error("{}: not valid JSON: {}{}", name, simdjson::error_message(error), hint);
  }
  return document;
}

std::int32_t checked_id(const JsonView& json) {
  const std::int64_t id = json.integer();
  if (id < 0 || id > kMaxId)
    throw base::input_error("{}: id {} is out of range 0..{}", json.path(), id, kMaxId);
  return static_cast<std::int32_t>(id);
}

class Reader {
 public:
  Reader(JsonView root, std::string_view name) : root_(std::move(root)), model_(root_.at("model")) {
    parts_->name = name;
  }

  std::shared_ptr<Tokenizer::Parts> read() {
    check_model_type();
    read_vocab();
    read_added_tokens();
    parts_->texts.index();
    parts_->normalizer = Normalizer::parse(root_.find("normalizer"));
    auto pre_tokenizer = PreTokenizer::parse(root_.find("pre_tokenizer"));
    parts_->pre_tokenizer = std::move(pre_tokenizer.cutter);
    read_model(pre_tokenizer.byte_level);
    build_matchers();
    parts_->post_processor = PostProcessor::parse(root_.find("post_processor"), parts_->texts);
    parts_->decoder = Decoder::parse(root_.find("decoder"));
    return std::move(parts_);
  }

 private:
  void check_model_type() const {
    // Old files leave the type out; only BPE has merges.
    const auto type = model_.find("type");
    if (type ? type->string() != "BPE" : !model_.find("merges")) {
      throw base::input_error("{}: model \"{}\" is not supported, expected \"BPE\"", model_.path(),
                              type ? type->string() : std::string_view("?"));
    }
    for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const auto affix = model_.find(key);
      if (affix && !affix->string().empty()) throw base::input_error("{}: not supported", affix->path());
    }
    if (const auto dropout = model_.find("dropout")) {
      double value = 0;
      if (dropout->element().get(value) != simdjson::SUCCESS || value != 0) {
        throw base::input_error("{}: dropout makes encoding random and is not supported", dropout->path());
      }
    }
  }

  void read_vocab() {
    const JsonView vocab = model_.at("vocab");
    std::unordered_set<std::string_view> seen;
    for (const auto& [key, value] : vocab.object()) {
      const JsonView entry(value, fmt::format("{}[\"{}\"]", vocab.path(), key));
      const std::int32_t id = checked_id(entry);
      if (!seen.insert(key).second) throw base::input_error("{}: the token is there twice", entry.path());
      if (!parts_->texts.add(key, id)) {
        throw base::input_error("{}: id {} belongs to \"{}\" already", entry.path(), id,
                                parts_->texts.key(id));
      }
      vocab_.emplace_back(key, id);
    }
    if (vocab_.empty()) throw base::input_error("{}: no tokens", vocab.path());
  }

  void read_added_tokens() {
    const auto list = root_.find("added_tokens");
    if (!list) return;
    std::unordered_set<std::string_view> seen;
    std::unordered_map<std::string_view, std::int32_t> in_vocab(vocab_.begin(), vocab_.end());
    list->for_each([&](const JsonView& json) {
      AddedToken token;
      const std::string_view content = json.string("content");
      token.content = content;
      token.id = checked_id(json.at("id"));
      token.special = json.boolean("special", false);
      token.normalized = json.boolean("normalized", !token.special);
      token.lstrip = json.boolean("lstrip", false);
      token.rstrip = json.boolean("rstrip", false);
      token.single_word = json.boolean("single_word", false);
      if (!seen.insert(content).second) {
        throw base::input_error("{}: the added token \"{}\" is there twice", json.path(), content);
      }
      const auto known = in_vocab.find(content);
      if (known != in_vocab.end() && known->second != token.id) {
        throw base::input_error("{}: \"{}\" has id {}, but {} in the vocabulary", json.path(), content,
                                token.id, known->second);
      }
      if (known == in_vocab.end() && !parts_->texts.add(content, token.id)) {
        throw base::input_error("{}: id {} of \"{}\" belongs to \"{}\" already", json.path(), token.id,
                                content, parts_->texts.key(token.id));
      }
      added_.push_back(std::move(token));
    });
  }

  // Tokens as the bytes that they stand for in a text. What the byte alphabet cannot write is never reached.
  StringTable pieces_of_vocab(bool byte_level) const {
    StringTable pieces;
    for (const auto& [text, id] : vocab_) {
      if (!byte_level) {
        pieces.add(text, id);
      } else if (const auto bytes = bytes_of_alphabet(text)) {
        pieces.add(*bytes, id);
      }
    }
    pieces.index();
    return pieces;
  }

  void read_model(bool byte_level) {
    Bpe::Parts bpe;
    bpe.byte_level = byte_level;
    bpe.ignore_merges = model_.boolean("ignore_merges", false);
    bpe.byte_fallback = model_.boolean("byte_fallback", false);
    bpe.fuse_unk = model_.boolean("fuse_unk", false);
    if (const auto unk = model_.find("unk_token")) {
      bpe.unk = parts_->texts.find(unk->string());
      if (!bpe.unk)
        throw base::input_error("{}: \"{}\" is not in the vocabulary", unk->path(), unk->string());
    }
    bpe.merges = read_merges();
    bpe.pieces = pieces_of_vocab(byte_level);
    parts_->bpe = std::make_unique<Bpe>(std::move(bpe));
  }

  MergeTable read_merges() const {
    const JsonView list = model_.at("merges");
    const simdjson::dom::array array = list.array();
    MergeTable merges(array.size() == 0xFFFFFF ? 0x4000000 : array.size());
    std::uint32_t rank = 0;
    std::size_t index = 0;
    std::string joined;
    for (const simdjson::dom::element element : array) {
      const auto fail = [&](std::string_view why) {
        return base::input_error("{}[{}]: {}", list.path(), index, why);
      };
      std::string_view left;
      std::string_view right;
      std::string_view text;
      simdjson::dom::array pair;
      if (element.get(text) == simdjson::SUCCESS) {
        ++index;
        if (text.starts_with("#version")) continue;
        --index;
        const std::size_t space = text.find(' ');
        if (space == text.npos || text.find(' ', space + 1) != text.npos) {
          throw fail(fmt::format("the merge \"{}\" does not split in two", text));
        }
        left = text.substr(0, space);
        right = text.substr(space + 1);
      } else if (element.get(pair) != simdjson::SUCCESS || pair.size() != 2 ||
                 pair.at(0).get(left) != simdjson::SUCCESS || pair.at(1).get(right) != simdjson::SUCCESS) {
        throw fail("expected a merge of two strings");
      }
      joined.assign(left).append(right);
      const auto id_of = [&](std::string_view token) {
        const auto id = vocab_id(token);
        if (!id) throw fail(fmt::format("\"{}\" is not in the vocabulary", token));
        return *id;
      };
      const std::int32_t left_id = id_of(left);
      const std::int32_t right_id = id_of(right);
      merges.add(left_id, right_id, {rank++, id_of(joined)});
      ++index;
    }
    return merges;
  }

  std::optional<std::int32_t> vocab_id(std::string_view token) const { return parts_->texts.find(token); }

  void build_matchers() {
    parts_->is_special.resize(static_cast<std::size_t>(parts_->texts.id_limit()));
    std::vector<AddedToken> raw;
    std::vector<AddedToken> normalized;
    std::vector<std::string> raw_patterns;
    std::vector<std::string> normalized_patterns;
    for (AddedToken& token : added_) {
      parts_->is_special[static_cast<std::size_t>(token.id)] = token.special;
      if (token.normalized) {
        AlignedText text(token.content, 0, Alignment::none);
        if (parts_->normalizer) parts_->normalizer->apply(text);
        normalized_patterns.emplace_back(text.view());
        normalized.push_back(std::move(token));
      } else {
        raw_patterns.push_back(token.content);
        raw.push_back(std::move(token));
      }
    }
    parts_->raw_tokens = std::make_unique<AddedTokenMatcher>(std::move(raw), raw_patterns);
    parts_->normalized_tokens =
        std::make_unique<AddedTokenMatcher>(std::move(normalized), normalized_patterns);
  }

  JsonView root_;
  JsonView model_;
  std::shared_ptr<Tokenizer::Parts> parts_ = std::make_shared<Tokenizer::Parts>();
  std::vector<std::pair<std::string_view, std::int32_t>> vocab_;
  std::vector<AddedToken> added_;
};

std::optional<std::int32_t> named_token(const TokenizerConfig& config, const char* key,
                                        const Tokenizer::Parts& parts) {
  const auto text = config.special_tokens.find(key);
  if (text == config.special_tokens.end()) return std::nullopt;
  const auto id = parts.texts.find(text->get_ref<const std::string&>());
  if (!id) {
    throw base::input_error("{}: {} \"{}\" is not a token of {}", config.path, key,
                            text->get_ref<const std::string&>(), parts.name);
  }
  return id;
}

}  // namespace

std::shared_ptr<Tokenizer::Parts> read_tokenizer_json(std::string_view json, std::string_view name) {
  simdjson::dom::parser parser;
  return Reader(JsonView(parse_document(parser, json, name), std::string(name)), name).read();
}

void apply_tokenizer_config(const TokenizerConfig& config, Tokenizer::Parts& parts) {
  parts.bos = named_token(config, "bos_token", parts);
  parts.eos = named_token(config, "eos_token", parts);
  auto& prefix = parts.post_processor.prefix;
  auto& suffix = parts.post_processor.suffix;
  if (config.add_bos && parts.bos && (prefix.empty() || prefix.front() != *parts.bos)) {
    prefix.insert(prefix.begin(), *parts.bos);
  }
  if (config.add_eos && parts.eos && (suffix.empty() || suffix.back() != *parts.eos)) {
    suffix.push_back(*parts.eos);
  }
}

}  // namespace tagalong::tokenizer
