#include "tokenizer/string_table.h"

#include <cstring>

#include "base/check.h"

namespace tagalong::tokenizer {
namespace {

std::uint64_t mix(std::uint64_t state, std::uint64_t word) {
  state = (state ^ word) * 0x9E3779B97F4A7C15u;
  return state ^ state >> 29;
}

std::uint32_t hash_of(std::string_view key) {
  std::uint64_t state = key.size();
  const char* data = key.data();
  std::size_t left = key.size();
  while (left >= 8) {
    std::uint64_t word;
    std::memcpy(&word, data, 8);
    state = mix(state, word);
    data += 8;
    left -= 8;
  }
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < left; ++i)
    word |= static_cast<std::uint64_t>(static_cast<std::uint8_t>(data[i])) << 8 * i;
  state = mix(state, word);
  return static_cast<std::uint32_t>(state ^ state >> 32);
}

}  // namespace

bool StringTable::add(std::string_view key, std::int32_t id) {
  CHECK(id >= 0 && slots_.empty());
  if (contains(id)) return false;
  if (static_cast<std::size_t>(id) >= entries_.size()) entries_.resize(static_cast<std::size_t>(id) + 1);
  Entry& entry = entries_[static_cast<std::size_t>(id)];
  entry.begin = static_cast<std::uint32_t>(bytes_.size());
  entry.length = static_cast<std::uint32_t>(key.size()) & 0x7FFFFFFFu;
  entry.used = 1;
  bytes_ += key;
  ++count_;
  return true;
}

void StringTable::index() {
  std::size_t capacity = 16;
  while (capacity < 2 * count_) capacity *= 2;
  slots_.assign(capacity, Slot{});
  for (std::size_t id = 0; id < entries_.size(); ++id) {
    if (!entries_[id].used) continue;
    const std::uint32_t hash = hash_of(key(static_cast<std::int32_t>(id)));
    std::size_t at = hash & (capacity - 1);
    while (slots_[at].id >= 0) at = (at + 1) & (capacity - 1);
    slots_[at] = {hash, static_cast<std::int32_t>(id)};
  }
}

std::optional<std::int32_t> StringTable::find(std::string_view key) const {
  if (slots_.empty()) return std::nullopt;
  const std::uint32_t hash = hash_of(key);
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
    const Slot& slot = slots_[at];
    if (slot.id < 0) return std::nullopt;
    if (slot.hash == hash && this->key(slot.id) == key) return slot.id;
  }
}

}  // namespace tagalong::tokenizer
