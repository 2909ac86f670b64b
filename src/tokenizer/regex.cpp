#include "tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <cstdint>

#include "base/error.h"
#include "tokenizer/utf8.h"

namespace tagalong::tokenizer {
namespace {

std::string message_of(int code) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(code, buffer, sizeof(buffer));
  return reinterpret_cast<const char*>(buffer);
}

// The JIT grows its stack to this size for patterns that backtrack into long repeats.
constexpr std::size_t kStackStart = 64 << 10;
constexpr std::size_t kStackLimit = 64 << 20;
// Far beyond what a pattern needs that looks at each character a few times.
constexpr std::uint64_t kMatchSteps = 10'000'000;
constexpr std::uint64_t kMatchStepsPerByte = 1'000;

}  // namespace

Regex::Regex(std::string_view pattern, std::string_view path) : pattern_(pattern) {
  const std::string translated = translate_regex(pattern, path);
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                   PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK, &error, &offset, nullptr);
  if (code == nullptr) throw base::input_error("{}: regex \"{}\": {}", path, pattern, message_of(error));
  code_ = std::shared_ptr<const pcre2_real_code_8>(
      code, [](const pcre2_code* c) { pcre2_code_free(const_cast<pcre2_code*>(c)); });
  // Without a JIT (a hardened kernel may refuse it) the interpreter gives the same matches, slower.
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
}

struct Regex::Matcher::State {
  const Regex& regex;
  std::string_view text;
  std::size_t position = 0;
  pcre2_match_data* data;
  pcre2_match_context* context;
  pcre2_jit_stack* stack;
};

Regex::Matcher::Matcher(const Regex& regex, std::string_view text)
    : state_(std::make_unique<State>(State{
          regex, text, 0, pcre2_match_data_create_from_pattern(regex.code_.get(), nullptr),
          pcre2_match_context_create(nullptr), pcre2_jit_stack_create(kStackStart, kStackLimit, nullptr)})) {
  if (state_->stack != nullptr) pcre2_jit_stack_assign(state_->context, nullptr, state_->stack);
  // The engine's default bound would make long runs of one character fail, and no bound would let a pattern
  // that tries exponentially many ways run for ever.
  const std::uint64_t limit = kMatchSteps + kMatchStepsPerByte * text.size();
  pcre2_set_match_limit(state_->context,
                        static_cast<std::uint32_t>(std::min<std::uint64_t>(limit, ~std::uint32_t{0})));
}

Regex::Matcher::~Matcher() {
  pcre2_match_data_free(state_->data);
  pcre2_match_context_free(state_->context);
  pcre2_jit_stack_free(state_->stack);
}

std::optional<TextRange> Regex::Matcher::next() {
  State& s = *state_;
  if (s.position > s.text.size()) return std::nullopt;
  const int result = pcre2_match(s.regex.code_.get(), reinterpret_cast<PCRE2_SPTR>(s.text.data()),
                                 s.text.size(), s.position, PCRE2_NO_UTF_CHECK, s.data, s.context);
  if (result == PCRE2_ERROR_NOMATCH) {
    s.position = s.text.size() + 1;
    return std::nullopt;
  }
  if (result < 0) {
    throw base::input_error("regex \"{}\" failed at byte {} of {}: {}", s.regex.pattern_, s.position,
                            s.text.size(), message_of(result));
  }
  const PCRE2_SIZE* found = pcre2_get_ovector_pointer(s.data);
  const TextRange match{found[0], found[1]};
  s.position = match.end;
  if (match.begin == match.end) {
    s.position += match.end < s.text.size() ? code_point_at(s.text, match.end).length : 1;
  }
  return match;
}

}  // namespace tagalong::tokenizer
