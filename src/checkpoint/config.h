// A model's config.json, read by key: every value comes with its type checked, and every failure names the
// key, what was expected and what was found.
//
// Cheap to copy (the parsed text is shared) and immutable: any thread may read. A key whose value is null
// counts as absent, as Hugging Face writes it. Knows nothing of any architecture.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tagalong::checkpoint {

// Bounds of an integer, both allowed.
struct IntegerRange {
  std::int64_t min = std::numeric_limits<std::int64_t>::min();
  std::int64_t max = std::numeric_limits<std::int64_t>::max();
};
// What a dimension or a count of a model may be: large enough for any, small enough that products of three
// fit in 64 bits.
inline constexpr IntegerRange kDimension{.min = 1, .max = std::int64_t{1} << 21};

// Bounds of a real number, both allowed. Values are always finite.
struct RealRange {
  double min = std::numeric_limits<double>::lowest();
  double max = std::numeric_limits<double>::max();
};

class Config {
 public:
  // Reads `directory`/config.json.
  static Config load(const std::filesystem::path& directory);
  // `origin` begins every message, usually a file name.
  static Config parse(std::string_view text, std::string origin);

  std::string model_type() const { return string("model_type"); }

  bool has(std::string_view key) const;
  std::vector<std::string> keys() const;

  std::int64_t integer(std::string_view key, IntegerRange range = {}) const;
  std::int64_t integer_or(std::string_view key, std::int64_t fallback, IntegerRange range = {}) const;
  // A whole number counts as real.
  double real(std::string_view key, RealRange range = {}) const;
  double real_or(std::string_view key, double fallback, RealRange range = {}) const;
  bool boolean(std::string_view key) const;
  bool boolean_or(std::string_view key, bool fallback) const;
  std::string string(std::string_view key) const;
  std::string string_or(std::string_view key, std::string_view fallback) const;

  // A single integer counts as a list of one (eos_token_id is written both ways).
  std::vector<std::int64_t> integers(std::string_view key, IntegerRange range = {}) const;
  std::vector<std::string> strings(std::string_view key) const;

  // Messages about keys of a nested object show the way to them: 'rope_parameters.rope_theta'.
  Config object(std::string_view key) const;
  std::optional<Config> optional_object(std::string_view key) const;

  // rope_parameters.rope_theta, else the top-level rope_theta of older files, else `fallback`; without a
  // fallback the key must be there.
  double rope_theta(std::optional<double> fallback = std::nullopt) const;

  // The error to throw for a value that this class cannot judge: "config.json: key 'hidden_act': MESSAGE".
  [[noreturn]] void fail(std::string_view key, std::string_view message) const;

 private:
  Config(std::shared_ptr<const nlohmann::json> root, const nlohmann::json* node, std::string origin,
         std::string path)
      : root_(std::move(root)), node_(node), origin_(std::move(origin)), path_(std::move(path)) {}

  const nlohmann::json* find(std::string_view key) const;  // nullptr if absent or null
  const nlohmann::json& require(std::string_view key) const;
  std::string full_name(std::string_view key) const;
  [[noreturn]] void wrong_type(std::string_view key, std::string_view expected,
                               const nlohmann::json& found) const;
  std::int64_t to_integer(std::string_view key, const nlohmann::json& value, IntegerRange range) const;
  double to_real(std::string_view key, const nlohmann::json& value, RealRange range) const;

  std::shared_ptr<const nlohmann::json> root_;
  const nlohmann::json* node_;  // an object inside root_
  std::string origin_;
  std::string path_;  // of node_, empty for the root, otherwise ending in '.'
};

}  // namespace tagalong::checkpoint
