// The normalisers of tokenizer.json: the four Unicode forms, Lowercase, StripAccents, Strip, Prepend,
// Replace and sequences of them.
//
// Immutable after parsing: any thread.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "tokenizer/aligned_text.h"
#include "tokenizer/json_view.h"

namespace tagalong::tokenizer {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(AlignedText& text) const = 0;

  // Null for an absent one. Throws InputError naming an unknown type.
  static std::unique_ptr<Normalizer> parse(const std::optional<JsonView>& json);
};

}  // namespace tagalong::tokenizer
