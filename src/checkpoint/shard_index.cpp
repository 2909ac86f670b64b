#include "checkpoint/shard_index.h"

#include <simdjson.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/mapped_file.h"
#include "checkpoint/quote.h"

namespace tagalong::checkpoint {

namespace {

using base::input_error;

constexpr std::size_t kMaxFileBytes = std::size_t{256} << 20;
constexpr std::size_t kMaxShards = 4096;
constexpr std::size_t kMaxDepth = 16;

bool is_plain_basename(std::string_view name) {
  return !name.empty() && name.front() != '.' && name.find_first_of("/\\") == std::string_view::npos &&
         !has_control_characters(name) && name.size() <= 255;
}

}  // namespace

ShardIndex parse_shard_index(std::string_view text, std::string_view origin) {
  simdjson::dom::parser parser;
  if (parser.allocate(text.size(), kMaxDepth) != simdjson::SUCCESS) {
    throw input_error("{}: no memory to parse {} bytes", origin, text.size());
  }
  simdjson::dom::element document;
  if (const auto code = parser.parse(text.data(), text.size()).get(document); code != simdjson::SUCCESS) {
    throw input_error("{}: not valid JSON: {}", origin, simdjson::error_message(code));
  }
  simdjson::dom::object root;
  simdjson::dom::object weight_map;
  if (document.get(root) != simdjson::SUCCESS || root["weight_map"].get(weight_map) != simdjson::SUCCESS) {
    throw input_error("{}: missing object 'weight_map'", origin);
  }

  ShardIndex index;
  std::map<std::string, std::size_t, std::less<>> shards;
  for (const auto field : weight_map) {
    std::string_view shard;
    if (field.value.get(shard) != simdjson::SUCCESS) {
      throw input_error("{}: weight_map: the shard of {} is not a string", origin, quote(field.key));
    }
    if (!is_plain_basename(shard)) {
      throw input_error("{}: weight_map: tensor {}: {} is not a plain file name", origin, quote(field.key),
                        quote(shard));
    }
    const auto [place, is_new] = shards.try_emplace(std::string(shard), shards.size());
    if (is_new && shards.size() > kMaxShards)
      throw input_error("{}: more than {} shards", origin, kMaxShards);
    index.tensors.emplace_back(field.key, place->second);
  }
  if (index.tensors.empty()) throw input_error("{}: 'weight_map' is empty", origin);

  // From order of appearance to order of name.
  std::vector<std::size_t> rank(shards.size());
  for (const auto& [name, appearance] : shards) {
    rank[appearance] = index.shards.size();
    index.shards.push_back(name);
  }
  for (auto& tensor : index.tensors) tensor.second = rank[tensor.second];
  std::sort(index.tensors.begin(), index.tensors.end());
  const auto twice = std::adjacent_find(index.tensors.begin(), index.tensors.end(),
                                        [](const auto& a, const auto& b) { return a.first == b.first; });
  if (twice != index.tensors.end()) {
    throw input_error("{}: weight_map: tensor {} occurs twice", origin, quote(twice->first));
  }
  return index;
}

ShardIndex load_shard_index(const std::filesystem::path& path) {
  return parse_shard_index(base::read_text_file(path, kMaxFileBytes), path.string());
}

}  // namespace tagalong::checkpoint
