#include "tokenizer/stream_decoder.h"

#include "tokenizer/tokenizer_parts.h"

namespace tagalong::tokenizer {

struct StreamDecoder::State {
  std::shared_ptr<const Tokenizer::Parts> parts;
  DecodeOptions options;
  DecoderRun run;
};

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, DecodeOptions options)
    : state_(
          std::make_unique<State>(State{tokenizer.parts_, options, DecoderRun(tokenizer.parts_->decoder)})) {}
StreamDecoder::~StreamDecoder() = default;
StreamDecoder::StreamDecoder(StreamDecoder&&) noexcept = default;
StreamDecoder& StreamDecoder::operator=(StreamDecoder&&) noexcept = default;

std::string StreamDecoder::push(std::int32_t id) {
  const Tokenizer::Parts& parts = *state_->parts;
  parts.require_token(id);
  std::string text;
  if (state_->options.skip_special && parts.is_special[static_cast<std::size_t>(id)]) return text;
  state_->run.push(parts.texts.key(id), text);
  return text;
}

std::string StreamDecoder::finish() {
  std::string text;
  state_->run.finish(text);
  return text;
}

}  // namespace tagalong::tokenizer
