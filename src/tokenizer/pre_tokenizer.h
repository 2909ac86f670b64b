// The pre-tokenizers of tokenizer.json: what cuts text into the pieces that byte-pair encoding works on.
//
// Immutable after parsing: any thread, each with its own PieceList.
#pragma once

#include <memory>
#include <optional>

#include "tokenizer/aligned_text.h"
#include "tokenizer/json_view.h"

namespace tagalong::tokenizer {

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // Replaces the pieces of the list by finer ones. No piece is ever empty.
  virtual void cut(PieceList& list) const = 0;

  struct Parsed {
    std::unique_ptr<PreTokenizer> cutter;  // null: the text is one piece
    bool byte_level = false;               // the model works on bytes, written in the byte alphabet
  };
  // Throws InputError naming an unknown type.
  static Parsed parse(const std::optional<JsonView>& json);
};

}  // namespace tagalong::tokenizer
