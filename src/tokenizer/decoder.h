// The decoders of tokenizer.json as stages that a text runs through token by token, so that streaming and
// decoding as a whole are one thing.
//
// Decoder is immutable: any thread. DecoderRun is the state of one text, for one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/json_view.h"
#include "tokenizer/utf8.h"

namespace tagalong::tokenizer {

struct DecoderStep {
  enum class Kind { byte_level, byte_fallback, fuse, replace, strip, metaspace, join_with_space };
  Kind kind;
  bool fused = false;     // the step sees the whole text as one token
  std::string from;       // replace: what is replaced; strip and metaspace: the character
  std::string to;         // replace: by what
  std::size_t start = 0;  // strip: how many at most, at the start and at the end
  std::size_t stop = 0;
  bool drop_first = false;  // metaspace: the first token loses the character
};

class Decoder {
 public:
  static Decoder parse(const std::optional<JsonView>& json);

  const std::vector<DecoderStep>& steps() const { return steps_; }
  // The bytes that one token adds to a text, seen alone and not at its start.
  std::string bytes_of(std::string_view token) const;

 private:
  std::vector<DecoderStep> steps_;
};

class DecoderRun {
 public:
  // The decoder must outlive the run.
  explicit DecoderRun(const Decoder& decoder);

  // Appends to `out` what the token has settled: whole characters only.
  void push(std::string_view token, std::string& out);
  void finish(std::string& out);

 private:
  struct State {
    LossyDecoder lossy;        // byte_level
    std::string waiting;       // byte_fallback: bytes of the run; strip: characters that may be the last
    std::size_t stripped = 0;  // strip, fused: how many at the start
    bool started = false;      // strip, fused: past the start; metaspace, join: a token was seen
  };

  void feed(std::size_t index, std::string token, std::string& out);
  void feed_byte_fallback(std::size_t index, std::string token, std::string& out);
  void end_byte_run(std::size_t index, std::string& out);
  void feed_fused_strip(std::size_t index, std::string token, std::string& out);

  const std::vector<DecoderStep>* steps_;
  std::vector<State> states_;
};

}  // namespace tagalong::tokenizer
