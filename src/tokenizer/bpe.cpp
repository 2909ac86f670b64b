#include "tokenizer/bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "tokenizer/utf8.h"

namespace tagalong::tokenizer {
namespace {

constexpr std::uint32_t kNoMerge = ~std::uint32_t{0};
// Up to here a scan for the lowest rank beats the heap; measured on prose and on code.
constexpr std::size_t kShort = 40;

}  // namespace

Bpe::Bpe(Parts parts) : parts_(std::move(parts)) {
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char raw = static_cast<char>(byte);
    const std::string fallback = fmt::format("<0x{:02X}>", byte);
    byte_ids_[byte] =
        parts_.pieces.find(parts_.byte_level ? std::string_view(&raw, 1) : fallback).value_or(-1);
  }
  reach_ = std::make_unique<std::atomic<Reach>[]>(static_cast<std::size_t>(parts_.pieces.id_limit()));
}

void Bpe::encode(std::string_view piece, Scratch& scratch, std::vector<BpeToken>& out) const {
  const auto whole = parts_.pieces.find(piece);
  std::atomic<Reach>* reach = whole ? &reach_[static_cast<std::size_t>(*whole)] : nullptr;
  if (whole && (parts_.ignore_merges || reach->load(std::memory_order_relaxed) == Reach::itself)) {
    out.push_back({*whole, static_cast<std::uint32_t>(piece.size())});
    return;
  }
  start_symbols(piece, scratch);
  if (scratch.symbols.size() <= kShort) {
    merge_short(scratch);
  } else {
    merge_long(scratch);
  }
  const std::size_t first = out.size();
  for (const Scratch::Symbol& symbol : scratch.symbols) {
    if (symbol.length > 0) out.push_back({symbol.id, symbol.length});
  }
  // Merging depends on nothing but the piece, so the answer can be kept.
  if (whole) {
    const bool itself = out.size() == first + 1 && out[first].id == *whole;
    reach->store(itself ? Reach::itself : Reach::others, std::memory_order_relaxed);
  }
}

void Bpe::start_symbols(std::string_view piece, Scratch& scratch) const {
  scratch.symbols.clear();
  if (parts_.byte_level) {
    for (const char c : piece) {
      std::int32_t id = byte_ids_[static_cast<std::uint8_t>(c)];
      if (id < 0) {
        if (!parts_.unk) {
          throw base::input_error("tokenizer: byte 0x{:02X} has no token, and there is no unk_token",
                                  static_cast<std::uint8_t>(c));
        }
        id = *parts_.unk;
      }
      scratch.symbols.push_back({id, 1, 0, 0});
    }
    return;
  }
  bool unknown_before = false;
  for (std::size_t at = 0; at < piece.size();) {
    const std::uint32_t length = code_point_at(piece, at).length;
    start_code_point(piece.substr(at, length), scratch, unknown_before);
    at += length;
  }
}

void Bpe::start_code_point(std::string_view bytes, Scratch& scratch, bool& unknown_before) const {
  const std::uint32_t length = static_cast<std::uint32_t>(bytes.size());
  if (const auto id = parts_.pieces.find(bytes)) {
    scratch.symbols.push_back({*id, length, 0, 0});
    unknown_before = false;
    return;
  }
  const auto id_of = [&](char c) { return byte_ids_[static_cast<std::uint8_t>(c)]; };
  if (parts_.byte_fallback &&
      std::all_of(bytes.begin(), bytes.end(), [&](char c) { return id_of(c) >= 0; })) {
    for (const char c : bytes) scratch.symbols.push_back({id_of(c), 1, 0, 0});
    unknown_before = false;
    return;
  }
  if (!parts_.unk) {
    throw base::input_error("tokenizer: U+{:04X} has no token, and there is no unk_token",
                            static_cast<std::uint32_t>(code_point_at(bytes, 0).value));
  }
  if (unknown_before && parts_.fuse_unk) {
    scratch.symbols.back().length += length;
  } else {
    scratch.symbols.push_back({*parts_.unk, length, 0, 0});
  }
  unknown_before = true;
}

// Repeats: find the lowest rank, the leftmost of equals; join the two; look up the two new neighbours.
void Bpe::merge_short(Scratch& scratch) const {
  auto& symbols = scratch.symbols;
  auto& ranks = scratch.ranks;  // of the pair that begins at each symbol
  const auto rank_at = [&](std::size_t i) {
    if (i + 1 >= symbols.size()) return kNoMerge;
    const Merge* merge = parts_.merges.find(symbols[i].id, symbols[i + 1].id);
    return merge == nullptr ? kNoMerge : merge->rank;
  };
  ranks.resize(symbols.size());
  for (std::size_t i = 0; i < symbols.size(); ++i) ranks[i] = rank_at(i);
  while (symbols.size() > 1) {
    const auto best = std::min_element(ranks.begin(), ranks.end());
    if (*best == kNoMerge) return;
    const std::size_t i = static_cast<std::size_t>(best - ranks.begin());
    symbols[i].id = parts_.merges.find(symbols[i].id, symbols[i + 1].id)->id;
    symbols[i].length += symbols[i + 1].length;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    ranks.erase(ranks.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    ranks[i] = rank_at(i);
    if (i > 0) ranks[i - 1] = rank_at(i - 1);
  }
}

// The same by a heap over a linked list: n log n, for a word of any length. A candidate is stale when its
// left symbol was joined away or has grown; a symbol only grows, so id and length together tell.
void Bpe::merge_long(Scratch& scratch) const {
  auto& symbols = scratch.symbols;
  auto& heap = scratch.heap;
  const auto later = [](const Scratch::Candidate& a, const Scratch::Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
  };
  const auto candidate = [&](std::int32_t left, auto&& put) {
    if (left < 0) return;
    const Scratch::Symbol& a = symbols[static_cast<std::size_t>(left)];
    if (a.next < 0) return;
    const Scratch::Symbol& b = symbols[static_cast<std::size_t>(a.next)];
    if (const Merge* merge = parts_.merges.find(a.id, b.id)) {
      put(Scratch::Candidate{merge->rank, left, merge->id, a.length + b.length});
    }
  };
  heap.clear();
  const std::int32_t count = static_cast<std::int32_t>(symbols.size());
  for (std::int32_t i = 0; i < count; ++i) {
    symbols[static_cast<std::size_t>(i)].previous = i - 1;
    symbols[static_cast<std::size_t>(i)].next = i + 1 < count ? i + 1 : -1;
  }
  for (std::int32_t i = 0; i < count; ++i) candidate(i, [&](const auto& c) { heap.push_back(c); });
  std::make_heap(heap.begin(), heap.end(), later);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const Scratch::Candidate top = heap.back();
    heap.pop_back();
    Scratch::Symbol& left = symbols[static_cast<std::size_t>(top.left)];
    if (left.length == 0 || left.next < 0) continue;
    Scratch::Symbol& right = symbols[static_cast<std::size_t>(left.next)];
    if (left.length + right.length != top.length) continue;
    const Merge* merge = parts_.merges.find(left.id, right.id);
    if (merge == nullptr || merge->id != top.id) continue;
    left.id = top.id;
    left.length += right.length;
    right.length = 0;
    left.next = right.next;
    if (left.next >= 0) symbols[static_cast<std::size_t>(left.next)].previous = top.left;
    const auto push = [&](const Scratch::Candidate& c) {
      heap.push_back(c);
      std::push_heap(heap.begin(), heap.end(), later);
    };
    candidate(left.previous, push);
    candidate(top.left, push);
  }
}

}  // namespace tagalong::tokenizer
