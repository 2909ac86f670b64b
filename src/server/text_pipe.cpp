#include "server/text_pipe.h"

#include <algorithm>

namespace tagalong::server {
namespace {

std::size_t count_characters(std::string_view utf8) {
  return static_cast<std::size_t>(std::ranges::count_if(utf8, [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

TextPipe::TextPipe(const tokenizer::Tokenizer& tokenizer, std::vector<std::string> stops, Logprobs logprobs,
                   std::string prefix)
    : tokenizer_(tokenizer),
      decoder_(tokenizer, {.skip_special = true}),
      stops_(std::move(stops)),
      logprobs_(logprobs == Logprobs::kYes),
      text_(std::move(prefix)),
      prefix_(text_.size()),
      characters_(count_characters(text_)) {}

std::string TextPipe::bytes_of(std::int32_t id) const {
  // A vocabulary padded to a round number has ids that are no tokens.
  return tokenizer_.has_token(id) ? tokenizer_.token_bytes(id) : "";
}

TokenRecord TextPipe::record_of(std::int32_t id, float logprob,
                                std::span<const engine::TokenLogprob> top) const {
  TokenRecord record{.bytes = bytes_of(id), .logprob = logprob, .top = {}, .offset = characters_};
  for (const engine::TokenLogprob& other : top) record.top.emplace_back(bytes_of(other.id), other.logprob);
  return record;
}

void TextPipe::append(std::string_view piece) {
  text_ += piece;
  characters_ += count_characters(piece);
  stops_.push(piece);
}

void TextPipe::push(std::int32_t id, float logprob, std::span<const engine::TokenLogprob> top) {
  if (finished_ || stopped()) return;
  if (logprobs_) held_.push_back({.record = record_of(id, logprob, top), .end = 0, .settled = false});
  if (!tokenizer_.has_token(id)) return;
  const std::string piece = decoder_.push(id);
  if (piece.empty()) return;
  append(piece);
  for (auto held = held_.rbegin(); held != held_.rend() && !held->settled; ++held) {
    held->settled = true;
    held->end = taken_ + text_.size();
  }
}

void TextPipe::finish(std::string_view reason) {
  if (finished_) return;
  finished_ = true;
  if (!stopped()) append(decoder_.finish());
  stops_.finish();
  reason_ = stopped() ? "stop" : reason;
  for (Held& held : held_) {
    if (!held.settled) held.end = taken_ + text_.size();
    held.settled = true;
  }
}

Delta TextPipe::take() {
  Delta delta;
  std::size_t until = prefix_ + stops_.certain();  // bytes of the text that may go
  const bool all = finished_ || stopped();
  if (logprobs_) {
    // Whole tokens only, but for the one in which a stop string begins.
    std::size_t begin = taken_;
    std::size_t whole = std::max(taken_, std::min(prefix_, until));
    while (!held_.empty() && held_.front().settled) {
      const bool partial = all && begin < until;
      if (held_.front().end > until && !partial) break;
      begin = held_.front().end;
      whole = std::min(begin, until);
      delta.tokens.push_back(std::move(held_.front().record));
      held_.pop_front();
    }
    if (!all) until = whole;
  }
  delta.text = text_.substr(0, until - taken_);
  text_.erase(0, until - taken_);
  taken_ = until;
  if (finished_ && !std::exchange(finish_given_, true)) delta.finish = reason_;
  return delta;
}

}  // namespace tagalong::server
