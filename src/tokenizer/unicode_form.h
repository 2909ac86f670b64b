// The Unicode normal forms as the reference implementation makes them.
//
// Immutable: any thread. The reference knows an older Unicode version than the library that does the work:
// what it does not know is kept away from the library.
#pragma once

#include "tokenizer/normalizer.h"

namespace tagalong::tokenizer {

class UnicodeForm : public Normalizer {
 public:
  enum class Form { nfc, nfd, nfkc, nfkd };
  explicit UnicodeForm(Form form) : form_(form) {}
  void apply(AlignedText& text) const override;

 private:
  Form form_;
};

}  // namespace tagalong::tokenizer
