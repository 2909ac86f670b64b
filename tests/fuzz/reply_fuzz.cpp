// Any bytes as a reply of any family: what comes out does not depend on where it was cut into chunks, and no
// text outside markers is lost. The first byte chooses the family and where the reply begins, the second the
// cuts.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "tokenizer/reply_parser.h"

using namespace tagalong::tokenizer;

namespace {

std::vector<ReplyPart> joined(std::vector<ReplyPart> parts) {
  std::vector<ReplyPart> result;
  for (ReplyPart& part : parts) {
    if (part.kind == ReplyPart::Kind::call) {
      result.push_back(std::move(part));
    } else {
      append_text(part.kind, part.text, result);
    }
  }
  return result;
}

std::vector<ReplyPart> parse(const ReplyFormat& format, ReplyStart start, std::string_view text,
                             std::size_t step) {
  ReplyParser parser(format, start);
  std::vector<ReplyPart> parts;
  const auto add = [&](std::vector<ReplyPart> more) {
    parts.insert(parts.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  };
  for (std::size_t at = 0; at < text.size(); at += step) add(parser.push(text.substr(at, step)));
  add(parser.finish());
  return joined(std::move(parts));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const auto families = reply_families();
  const ReplyFormat& format = families[data[0] % families.size()];
  const auto start = static_cast<ReplyStart>(data[0] / families.size() % 3);
  const std::string_view text(reinterpret_cast<const char*>(data + 2), size - 2);
  const std::vector<ReplyPart> whole = parse(format, start, text, size);
  CHECK(parse(format, start, text, 1) == whole);
  CHECK(parse(format, start, text, 1 + data[1] % 32) == whole);
  if (text.find('<') == text.npos && !text.empty() &&
      std::string_view(" \t\r\n").find(text[0]) == text.npos) {
    CHECK(!whole.empty() && whole.back().kind != ReplyPart::Kind::call);
  }
  return 0;
}
