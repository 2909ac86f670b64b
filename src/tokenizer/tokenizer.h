// Text to token ids and back, exactly as the reference implementation of tokenizer.json does it.
//
// Immutable and cheap to copy (copies share one set of tables): any number of threads may encode and decode
// at once. Never guesses: a component that is not known, and text that is not UTF-8, are InputErrors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tagalong::tokenizer {

// Bytes of a text.
struct ByteRange {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool operator==(const ByteRange&) const = default;
};

struct EncodeOptions {
  // What the model's post-processor puts before and after a text, such as BOS. Off for rendered chats, whose
  // template has printed it.
  bool add_special_tokens = true;
  // Off: the text of control tokens, such as <|im_end|> or <think>, stays text.
  bool match_special = true;
  // The same for parts of the text only: no control token matches a byte of these. Ascending, no overlap.
  std::span<const ByteRange> user_text = {};
};

struct DecodeOptions {
  // Leaves out the tokens that the tokenizer calls special.
  bool skip_special = false;
};

struct Token {
  std::int32_t id = 0;
  // The bytes that it came from, widened to whole characters. Empty for tokens that were put in.
  ByteRange range;
  bool operator==(const Token&) const = default;
};

class Tokenizer {
 public:
  // Reads tokenizer.json, and tokenizer_config.json if it is there, of a model's folder.
  static Tokenizer load(const std::filesystem::path& model_dir);
  // `name_for_errors` is what complaints begin with.
  static Tokenizer from_json(std::string_view tokenizer_json, std::string_view name_for_errors);

  std::vector<std::int32_t> encode(std::string_view utf8, EncodeOptions options = {}) const;
  std::vector<Token> encode_with_offsets(std::string_view utf8, EncodeOptions options = {}) const;
  // Throws InputError naming an id that is no token.
  std::string decode(std::span<const std::int32_t> ids, DecodeOptions options = {}) const;

  // The highest id plus one.
  std::int32_t vocab_size() const;
  std::optional<std::int32_t> token_id(std::string_view text) const;
  bool has_token(std::int32_t id) const;
  // As written in the vocabulary. These three throw InputError naming an id that is no token.
  std::string_view token_text(std::int32_t id) const;
  // What the token adds to a decoded text; not always whole characters.
  std::string token_bytes(std::int32_t id) const;
  bool is_special(std::int32_t id) const;

  // From tokenizer_config.json; absent if it does not say.
  std::optional<std::int32_t> bos_id() const;
  std::optional<std::int32_t> eos_id() const;

  struct Parts;
  explicit Tokenizer(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}

 private:
  friend class StreamDecoder;
  std::shared_ptr<const Parts> parts_;
};

}  // namespace tagalong::tokenizer
