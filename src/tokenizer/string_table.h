// Token strings and their ids: id to bytes, and bytes to id by an open-addressing hash.
//
// Filled once while a tokenizer is loaded, then immutable: any thread. Ids may have gaps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tagalong::tokenizer {

class StringTable {
 public:
  // False if the id is already there. The first of two equal keys is the one that find returns.
  bool add(std::string_view key, std::int32_t id);
  // To be called once, after the last add and before the first find.
  void index();

  std::optional<std::int32_t> find(std::string_view key) const;
  bool contains(std::int32_t id) const {
    return id >= 0 && static_cast<std::size_t>(id) < entries_.size() &&
           entries_[static_cast<std::size_t>(id)].used;
  }
  // The bytes of an id that is contained.
  std::string_view key(std::int32_t id) const {
    const Entry& entry = entries_[static_cast<std::size_t>(id)];
    return std::string_view(bytes_).substr(entry.begin, entry.length);
  }
  // The highest id plus one.
  std::int32_t id_limit() const { return static_cast<std::int32_t>(entries_.size()); }
  std::size_t size() const { return count_; }

 private:
  struct Entry {
    std::uint32_t begin = 0;
    std::uint32_t length : 31 = 0;
    std::uint32_t used : 1 = 0;
  };
  struct Slot {
    std::uint32_t hash = 0;
    std::int32_t id = -1;
  };

  std::string bytes_;
  std::vector<Entry> entries_;
  std::vector<Slot> slots_;  // a power of two, at most half full
  std::size_t count_ = 0;
};

}  // namespace tagalong::tokenizer
