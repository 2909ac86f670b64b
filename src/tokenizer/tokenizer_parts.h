// What a Tokenizer is made of. Private to the room.
//
// Immutable once read: any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe.h"
#include "tokenizer/decoder.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/post_processor.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/string_table.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_config.h"

namespace tagalong::tokenizer {

struct Tokenizer::Parts {
  std::string name;                                      // for errors
  StringTable texts;                                     // as written in the file, added tokens included
  std::vector<bool> is_special;                          // by id
  std::unique_ptr<AddedTokenMatcher> raw_tokens;         // matched in the text as it comes
  std::unique_ptr<AddedTokenMatcher> normalized_tokens;  // matched after normalisation
  std::unique_ptr<Normalizer> normalizer;                // null: none
  std::unique_ptr<PreTokenizer> pre_tokenizer;           // null: none
  std::unique_ptr<Bpe> bpe;
  PostProcessor post_processor;
  Decoder decoder;
  std::optional<std::int32_t> bos;
  std::optional<std::int32_t> eos;

  void require_token(std::int32_t id) const;
};

// Reads tokenizer.json.
std::shared_ptr<Tokenizer::Parts> read_tokenizer_json(std::string_view json, std::string_view name);
// Adds what tokenizer_config.json says about BOS and EOS.
void apply_tokenizer_config(const TokenizerConfig& config, Tokenizer::Parts& parts);

}  // namespace tagalong::tokenizer
