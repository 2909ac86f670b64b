#include "tokenizer/decoder.h"

#include <charconv>
#include <utility>

#include "tokenizer/byte_alphabet.h"

namespace tagalong::tokenizer {
namespace {

using Kind = DecoderStep::Kind;
constexpr int kMaxDepth = 16;

// The byte of "<0xNN>".
std::optional<char> fallback_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  unsigned value = 0;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, value, 16);
  if (error != std::errc() || end != token.data() + 5) return std::nullopt;
  return static_cast<char>(value);
}

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  std::size_t done = 0;
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, done)) {
    result += text.substr(done, at - done);
    result += to;
    done = at + from.size();
  }
  return result += text.substr(done);
}

std::string strip(std::string_view text, const DecoderStep& step) {
  for (std::size_t i = 0; i < step.start && text.starts_with(step.from); ++i)
    text.remove_prefix(step.from.size());
  for (std::size_t i = 0; i < step.stop && text.ends_with(step.from); ++i)
    text.remove_suffix(step.from.size());
  return std::string(text);
}

std::string one_character(const JsonView& json) {
  const std::string_view text = json.string();
  if (text.empty() || code_point_at(text, 0).length != text.size()) {
    throw base::input_error("{}: expected one character", json.path());
  }
  return std::string(text);
}

std::size_t count(const JsonView& json) {
  const std::int64_t value = json.integer();
  if (value < 0 || value > 1'000'000) throw base::input_error("{}: {} is out of range", json.path(), value);
  return static_cast<std::size_t>(value);
}

void parse_at(const JsonView& json, std::vector<DecoderStep>& steps, int depth) {
  if (depth > kMaxDepth) throw base::input_error("{}: nested deeper than {}", json.path(), kMaxDepth);
  const std::string_view type = json.string("type");
  if (type == "Sequence") {
    json.at("decoders").for_each([&](const JsonView& part) { parse_at(part, steps, depth + 1); });
    return;
  }
  bool fused = false;
  for (const DecoderStep& before : steps)
    fused |= before.kind == Kind::fuse || before.kind == Kind::byte_level;
  DecoderStep step{.kind = Kind::fuse, .fused = fused, .from = {}, .to = {}};
  if (type == "ByteLevel") {
    step.kind = Kind::byte_level;
  } else if (type == "ByteFallback") {
    step.kind = Kind::byte_fallback;
  } else if (type == "Fuse") {
    step.kind = Kind::fuse;
  } else if (type == "Replace") {
    step.kind = Kind::replace;
    const JsonView pattern = json.at("pattern").at("String");
    step.from = pattern.string();
    step.to = json.string("content");
    if (step.from.empty()) throw base::input_error("{}: an empty pattern", pattern.path());
  } else if (type == "Strip") {
    step.kind = Kind::strip;
    step.from = one_character(json.at("content"));
    step.start = count(json.at("start"));
    step.stop = count(json.at("stop"));
  } else if (type == "Metaspace") {
    step.kind = Kind::metaspace;
    step.from = one_character(json.at("replacement"));
    const auto scheme = json.find("prepend_scheme");
    step.drop_first = scheme ? scheme->string() != "never" : json.boolean("add_prefix_space", true);
  } else {
    throw base::input_error("{}: unknown decoder \"{}\"", json.path(), type);
  }
  // These look at single tokens, of which there are none any more.
  if (fused && step.kind != Kind::strip && step.kind != Kind::fuse) {
    throw base::input_error("{}: \"{}\" after the tokens are fused is not supported", json.path(), type);
  }
  steps.push_back(std::move(step));
}

}  // namespace

Decoder Decoder::parse(const std::optional<JsonView>& json) {
  Decoder decoder;
  if (json) {
    parse_at(*json, decoder.steps_, 0);
  } else {
    decoder.steps_.push_back({.kind = Kind::join_with_space, .from = {}, .to = {}});
  }
  return decoder;
}

std::string Decoder::bytes_of(std::string_view token) const {
  std::string bytes(token);
  for (const DecoderStep& step : steps_) {
    if (step.kind == Kind::byte_level) bytes = bytes_of_alphabet(bytes).value_or(bytes);
    if (step.kind == Kind::replace) bytes = replace_all(bytes, step.from, step.to);
    if (step.kind == Kind::metaspace) bytes = replace_all(bytes, step.from, " ");
    if (step.kind == Kind::strip && !step.fused) bytes = strip(bytes, step);
    if (step.kind == Kind::byte_fallback) {
      if (const auto byte = fallback_byte(bytes)) bytes = std::string(1, *byte);
    }
  }
  return bytes;
}

DecoderRun::DecoderRun(const Decoder& decoder) : steps_(&decoder.steps()), states_(decoder.steps().size()) {}

void DecoderRun::push(std::string_view token, std::string& out) { feed(0, std::string(token), out); }

void DecoderRun::feed(std::size_t index, std::string token, std::string& out) {
  if (index == steps_->size()) {
    out += token;
    return;
  }
  const DecoderStep& step = (*steps_)[index];
  State& state = states_[index];
  switch (step.kind) {
    case Kind::byte_level: {
      std::string text;
      state.lossy.push(bytes_of_alphabet(token).value_or(token), text);
      token = std::move(text);
      break;
    }
    case Kind::byte_fallback:
      return feed_byte_fallback(index, std::move(token), out);
    case Kind::fuse:
      break;
    case Kind::replace:
      token = replace_all(token, step.from, step.to);
      break;
    case Kind::strip:
      if (step.fused) return feed_fused_strip(index, std::move(token), out);
      token = strip(token, step);
      break;
    case Kind::metaspace:
      token = replace_all(token, step.from, step.drop_first && !state.started ? "" : " ");
      break;
    case Kind::join_with_space:
      if (state.started) token.insert(0, 1, ' ');
      break;
  }
  state.started = true;
  feed(index + 1, std::move(token), out);
}

// A run of byte tokens is one text if all of it is valid, else one U+FFFD for each byte: it must end first.
void DecoderRun::feed_byte_fallback(std::size_t index, std::string token, std::string& out) {
  if (const auto byte = fallback_byte(token)) {
    states_[index].waiting.push_back(*byte);
    return;
  }
  end_byte_run(index, out);
  feed(index + 1, std::move(token), out);
}

void DecoderRun::end_byte_run(std::size_t index, std::string& out) {
  const std::string run = std::exchange(states_[index].waiting, {});
  if (run.empty()) return;
  if (!find_invalid_utf8(run)) return feed(index + 1, run, out);
  for (std::size_t i = 0; i < run.size(); ++i) feed(index + 1, std::string(kReplacementCharacter), out);
}

void DecoderRun::feed_fused_strip(std::size_t index, std::string token, std::string& out) {
  const DecoderStep& step = (*steps_)[index];
  State& state = states_[index];
  std::string_view rest = token;
  while (!state.started && !rest.empty()) {
    if (state.stripped < step.start && rest.starts_with(step.from)) {
      rest.remove_prefix(step.from.size());
      ++state.stripped;
    } else {
      state.started = true;
    }
  }
  std::string text = std::exchange(state.waiting, {});
  text += rest;
  std::size_t settled = text.size();
  for (std::size_t i = 0; i < step.stop && std::string_view(text).substr(0, settled).ends_with(step.from);
       ++i) {
    settled -= step.from.size();
  }
  state.waiting = text.substr(settled);
  text.resize(settled);
  feed(index + 1, std::move(text), out);
}

void DecoderRun::finish(std::string& out) {
  for (std::size_t index = 0; index < steps_->size(); ++index) {
    const DecoderStep& step = (*steps_)[index];
    if (step.kind == Kind::byte_fallback) end_byte_run(index, out);
    if (step.kind == Kind::byte_level) {
      std::string text;
      states_[index].lossy.finish(text);
      feed(index + 1, std::move(text), out);
    }
    states_[index] = State{};
  }
}

}  // namespace tagalong::tokenizer
