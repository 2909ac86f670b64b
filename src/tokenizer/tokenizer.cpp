#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "tokenizer/tokenizer_parts.h"
#include "tokenizer/utf8.h"

namespace tagalong::tokenizer {
namespace {

bool overlaps(std::span<const ByteRange> ranges, TextRange range) {
  const auto after = std::lower_bound(ranges.begin(), ranges.end(), range.begin,
                                      [](const ByteRange& r, std::size_t begin) { return r.end <= begin; });
  return after != ranges.end() && after->begin < range.end;
}

// One text on its way to tokens.
class Encoding {
 public:
  Encoding(const Tokenizer::Parts& parts, std::string_view text, const EncodeOptions& options, bool offsets)
      : parts_(parts),
        text_(text),
        options_(options),
        offsets_(offsets),
        alignment_(offsets || !options.user_text.empty() ? Alignment::kept : Alignment::none) {}

  std::vector<Token> run() && {
    if (options_.add_special_tokens) put_in(parts_.post_processor.prefix, 0);
    std::vector<AddedTokenMatcher::Found> found;
    parts_.raw_tokens->find(text_, allowed([](TextRange range) { return range; }), found);
    for (const auto& part : found) {
      if (part.id >= 0) {
        out_.push_back({part.id, {part.range.begin, part.range.end}});
      } else {
        segment(part.range);
      }
    }
    if (options_.add_special_tokens) put_in(parts_.post_processor.suffix, text_.size());
    return std::move(out_);
  }

 private:
  // What the matcher may match, given where a range of its text lies in the original.
  template <typename Origin>
  AddedTokenMatcher::Allowed allowed(Origin&& origin) const {
    if (options_.match_special && options_.user_text.empty()) return {};
    return [this, origin](const AddedToken& token, TextRange range) {
      if (!token.is_control()) return true;
      return options_.match_special && !overlaps(options_.user_text, origin(range));
    };
  }

  void put_in(const std::vector<std::int32_t>& ids, std::size_t place) {
    for (const std::int32_t id : ids) out_.push_back({id, {place, place}});
  }

  void segment(TextRange range) {
    AlignedText text(text_.substr(range.begin, range.end - range.begin), range.begin, alignment_);
    if (parts_.normalizer) parts_.normalizer->apply(text);
    if (parts_.normalized_tokens->empty()) {
      if (!text.view().empty()) plain({&text, text.view()});
      return;
    }
    std::vector<AddedTokenMatcher::Found> found;
    const auto origin = [&text](TextRange r) { return text.origin(r.begin, r.end); };
    parts_.normalized_tokens->find(text.view(), allowed(origin), found);
    for (const auto& part : found) {
      const Piece piece{&text, text.view().substr(part.range.begin, part.range.end - part.range.begin)};
      if (part.id >= 0) {
        put(part.id, piece, 0, piece.text.size());
      } else {
        plain(piece);
      }
    }
  }

  void plain(const Piece& piece) {
    list_.pieces.assign(1, piece);
    list_.rewritten.clear();
    if (parts_.pre_tokenizer) parts_.pre_tokenizer->cut(list_);
    for (const Piece& part : list_.pieces) {
      tokens_.clear();
      parts_.bpe->encode(part.text, scratch_, tokens_);
      std::size_t at = 0;
      for (const BpeToken& token : tokens_) {
        put(token.id, part, at, at + token.length);
        at += token.length;
      }
      CHECK(at == part.text.size(), "{} of {} bytes encoded", at, part.text.size());
    }
  }

  void put(std::int32_t id, const Piece& piece, std::size_t begin, std::size_t end) {
    Token token{id, {}};
    if (offsets_) {
      const TextRange origin = piece.origin(begin, end);
      token.range = {origin.begin, origin.end};
      const auto inside = [&](std::size_t at) {
        return at < text_.size() && (static_cast<unsigned char>(text_[at]) & 0xC0) == 0x80;
      };
      while (inside(token.range.begin)) --token.range.begin;
      while (inside(token.range.end)) ++token.range.end;
    }
    out_.push_back(token);
  }

  const Tokenizer::Parts& parts_;
  std::string_view text_;
  const EncodeOptions& options_;
  bool offsets_;
  Alignment alignment_;
  std::vector<Token> out_;
  PieceList list_;
  Bpe::Scratch scratch_;
  std::vector<BpeToken> tokens_;
};

std::vector<Token> encode_text(const Tokenizer::Parts& parts, std::string_view text,
                               const EncodeOptions& options, bool offsets) {
  if (text.size() > std::numeric_limits<std::int32_t>::max()) {
    throw base::input_error("text of {} bytes: more than can be encoded at once", text.size());
  }
  require_utf8(text, "text to encode");
  std::size_t before = 0;
  for (const ByteRange& range : options.user_text) {
    CHECK(range.begin >= before && range.begin <= range.end && range.end <= text.size(),
          "user range {}..{} of {}", range.begin, range.end, text.size());
    before = range.end;
  }
  return Encoding(parts, text, options, offsets).run();
}

}  // namespace

void Tokenizer::Parts::require_token(std::int32_t id) const {
  if (!texts.contains(id)) throw base::input_error("{}: no token has id {}", name, id);
}

Tokenizer Tokenizer::load(const std::filesystem::path& model_dir) {
  const auto path = model_dir / "tokenizer.json";
  const auto parts = read_tokenizer_json(base::read_text_file(path), path.string());
  apply_tokenizer_config(TokenizerConfig::read(model_dir), *parts);
  return Tokenizer(parts);
}

Tokenizer Tokenizer::from_json(std::string_view tokenizer_json, std::string_view name_for_errors) {
  return Tokenizer(read_tokenizer_json(tokenizer_json, name_for_errors));
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view utf8, EncodeOptions options) const {
  const std::vector<Token> tokens = encode_text(*parts_, utf8, options, false);
  std::vector<std::int32_t> ids(tokens.size());
  std::transform(tokens.begin(), tokens.end(), ids.begin(), [](const Token& token) { return token.id; });
  return ids;
}

std::vector<Token> Tokenizer::encode_with_offsets(std::string_view utf8, EncodeOptions options) const {
  return encode_text(*parts_, utf8, options, true);
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, DecodeOptions options) const {
  DecoderRun run(parts_->decoder);
  std::string text;
  for (const std::int32_t id : ids) {
    parts_->require_token(id);
    if (options.skip_special && parts_->is_special[static_cast<std::size_t>(id)]) continue;
    run.push(parts_->texts.key(id), text);
  }
  run.finish(text);
  return text;
}

std::int32_t Tokenizer::vocab_size() const { return parts_->texts.id_limit(); }

std::optional<std::int32_t> Tokenizer::token_id(std::string_view text) const {
  return parts_->texts.find(text);
}

bool Tokenizer::has_token(std::int32_t id) const { return parts_->texts.contains(id); }

std::string_view Tokenizer::token_text(std::int32_t id) const {
  parts_->require_token(id);
  return parts_->texts.key(id);
}

std::string Tokenizer::token_bytes(std::int32_t id) const { return parts_->decoder.bytes_of(token_text(id)); }

bool Tokenizer::is_special(std::int32_t id) const {
  parts_->require_token(id);
  return parts_->is_special[static_cast<std::size_t>(id)];
}

std::optional<std::int32_t> Tokenizer::bos_id() const { return parts_->bos; }

std::optional<std::int32_t> Tokenizer::eos_id() const { return parts_->eos; }

}  // namespace tagalong::tokenizer
