// model.safetensors.index.json: which shard holds which tensor.
//
// Only plain basenames are accepted as shards, so that no index can make the reader open a file outside of
// its directory. Says nothing about what the shards really hold; the checkpoint compares that.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tagalong::checkpoint {

struct ShardIndex {
  std::vector<std::string> shards;                           // basenames, sorted
  std::vector<std::pair<std::string, std::size_t>> tensors;  // name and position in `shards`; sorted by name
};

// `origin` names the file in messages. Throws InputError.
ShardIndex parse_shard_index(std::string_view text, std::string_view origin);
ShardIndex load_shard_index(const std::filesystem::path& path);

}  // namespace tagalong::checkpoint
