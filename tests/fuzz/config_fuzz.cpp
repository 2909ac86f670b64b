// Any bytes as config.json and as model.safetensors.index.json: values come out, or an InputError.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "checkpoint/config.h"
#include "checkpoint/quantization.h"
#include "checkpoint/shard_index.h"

namespace {

using tagalong::base::InputError;
using tagalong::checkpoint::Config;

template <typename Action>
void attempt(Action action) {
  try {
    action();
  } catch (const InputError&) {
  }
}

void read_all(const Config& config) {
  for (const std::string& key : config.keys()) {
    attempt([&] {
      const auto value = config.integer(key, tagalong::checkpoint::kDimension);
      CHECK(value >= 1 && value <= tagalong::checkpoint::kDimension.max, "{}", value);
    });
    attempt([&] { config.real(key, {.min = 0, .max = 1}); });
    attempt([&] { config.boolean(key); });
    attempt([&] { config.string(key); });
    attempt([&] { config.integers(key); });
    attempt([&] { config.strings(key); });
    attempt([&] { read_all(config.object(key)); });
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  attempt([&] {
    const Config config = Config::parse(text, "config.json");
    attempt([&] { config.rope_theta(1.0); });
    attempt([&] { tagalong::checkpoint::declared_quantization(config, "/nonexistent"); });
    read_all(config);
  });
  attempt([&] {
    const auto index = tagalong::checkpoint::parse_shard_index(text, "index");
    for (const auto& [name, shard] : index.tensors) CHECK(shard < index.shards.size(), "{}", name);
    for (const std::string& shard : index.shards) CHECK(shard.find('/') == std::string::npos, "{}", shard);
  });
  return 0;
}
