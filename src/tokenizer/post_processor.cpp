#include "tokenizer/post_processor.h"

#include <string_view>

namespace tagalong::tokenizer {
namespace {

constexpr int kMaxDepth = 16;

std::int32_t known_id(const JsonView& json, const StringTable& tokens) {
  const std::int64_t id = json.integer();
  if (id < 0 || id >= tokens.id_limit() || !tokens.contains(static_cast<std::int32_t>(id))) {
    throw base::input_error("{}: no token has id {}", json.path(), id);
  }
  return static_cast<std::int32_t>(id);
}

// {"sep": ["</s>", 2], "cls": ["<s>", 0]}
std::int32_t named_pair(const JsonView& json, const StringTable& tokens) {
  std::optional<std::int32_t> id;
  std::size_t index = 0;
  json.for_each([&](const JsonView& part) {
    if (index++ == 1) id = known_id(part, tokens);
  });
  if (index != 2) throw base::input_error("{}: expected a token and its id", json.path());
  return *id;
}

PostProcessor parse_template(const JsonView& json, const StringTable& tokens) {
  PostProcessor result;
  bool after_text = false;
  json.at("single").for_each([&](const JsonView& part) {
    if (part.find("Sequence")) {
      if (after_text) throw base::input_error("{}: the text stands twice in the template", part.path());
      after_text = true;
      return;
    }
    const std::string_view name = part.at("SpecialToken").string("id");
    auto& side = after_text ? result.suffix : result.prefix;
    json.at("special_tokens").at(name).at("ids").for_each([&](const JsonView& id) {
      side.push_back(known_id(id, tokens));
    });
  });
  if (!after_text) throw base::input_error("{}.single: the template leaves out the text", json.path());
  return result;
}

PostProcessor parse_at(const JsonView& json, const StringTable& tokens, int depth) {
  if (depth > kMaxDepth) throw base::input_error("{}: nested deeper than {}", json.path(), kMaxDepth);
  const std::string_view type = json.string("type");
  if (type == "ByteLevel") return {};  // trims offsets; this code never trims them
  if (type == "TemplateProcessing") return parse_template(json, tokens);
  if (type == "RobertaProcessing" || type == "BertProcessing") {
    return {{named_pair(json.at("cls"), tokens)}, {named_pair(json.at("sep"), tokens)}};
  }
  if (type == "Sequence") {
    PostProcessor result;
    json.at("processors").for_each([&](const JsonView& part) {
      const PostProcessor outer = parse_at(part, tokens, depth + 1);
      result.prefix.insert(result.prefix.begin(), outer.prefix.begin(), outer.prefix.end());
      result.suffix.insert(result.suffix.end(), outer.suffix.begin(), outer.suffix.end());
    });
    return result;
  }
  throw base::input_error("{}: unknown post_processor \"{}\"", json.path(), type);
}

}  // namespace

PostProcessor PostProcessor::parse(const std::optional<JsonView>& json, const StringTable& tokens) {
  return json ? parse_at(*json, tokens, 0) : PostProcessor{};
}

}  // namespace tagalong::tokenizer
