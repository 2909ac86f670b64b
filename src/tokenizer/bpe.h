// Byte-pair encoding of one piece of text, after it was split off by the pre-tokenizer.
//
// Immutable but for a cache of one atomic byte per token: any thread may encode, each with its own Scratch.
// Never looks across the borders of the piece, and never drops a byte: what has no token is an InputError.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "tokenizer/merge_table.h"
#include "tokenizer/string_table.h"

namespace tagalong::tokenizer {

struct BpeToken {
  std::int32_t id;
  std::uint32_t length;  // bytes of the piece that it stands for
};

class Bpe {
 public:
  struct Parts {
    StringTable pieces;  // in the bytes of the text: the byte alphabet is already undone
    MergeTable merges;
    bool byte_level = false;     // the smallest symbols are bytes; else code points
    bool ignore_merges = false;  // a piece that is a token is that token, reachable by merging or not
    bool byte_fallback = false;  // <0xNN> for the bytes of an unknown code point
    bool fuse_unk = false;       // one unknown token for a run of unknown code points
    std::optional<std::int32_t> unk;
  };
  struct Scratch {
    struct Symbol {
      std::int32_t id;
      std::uint32_t length;
      std::int32_t previous;
      std::int32_t next;
    };
    struct Candidate {
      std::uint32_t rank;
      std::int32_t left;  // index of a symbol
      std::int32_t id;    // that the pair becomes
      std::uint32_t length;
    };
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;
    std::vector<std::uint32_t> ranks;
  };

  explicit Bpe(Parts parts);

  // Appends the tokens of a non-empty piece of valid UTF-8.
  void encode(std::string_view piece, Scratch& scratch, std::vector<BpeToken>& out) const;

 private:
  // What merging makes of a token's own bytes, found out when first asked.
  enum class Reach : std::uint8_t { unknown, itself, others };

  void start_symbols(std::string_view piece, Scratch& scratch) const;
  void start_code_point(std::string_view bytes, Scratch& scratch, bool& unknown_before) const;
  void merge_short(Scratch& scratch) const;
  void merge_long(Scratch& scratch) const;

  Parts parts_;
  std::array<std::int32_t, 256> byte_ids_;  // -1: no token; the byte itself, or <0xNN> with byte fallback
  std::unique_ptr<std::atomic<Reach>[]> reach_;
};

}  // namespace tagalong::tokenizer
