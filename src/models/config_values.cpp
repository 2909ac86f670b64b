#include "models/config_values.h"

#include <fmt/format.h>

namespace tagalong::models {

using checkpoint::Config;

int dimension(const Config& config, std::string_view key, int multiple) {
  const auto value = static_cast<int>(config.integer(key, checkpoint::kDimension));
  if (value % multiple != 0) config.fail(key, fmt::format("{} is not a multiple of {}", value, multiple));
  return value;
}

void refuse_unless_plain_decoder(const Config& config) {
  for (const char* key : {"attention_bias", "mlp_bias"}) {
    if (config.boolean_or(key, false)) config.fail(key, "biases are not supported");
  }
  if (const auto act = config.string_or("hidden_act", "silu"); act != "silu") {
    config.fail("hidden_act", "'" + act + "' is not supported, only silu");
  }
  // Older files call the object rope_scaling, and the type `type`.
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const auto rope = config.optional_object(key);
    if (!rope) continue;
    const char* type_key = rope->has("rope_type") ? "rope_type" : "type";
    if (const auto type = rope->string_or(type_key, "default"); type != "default") {
      rope->fail(type_key, "'" + type + "' is not supported, only default");
    }
  }
}

}  // namespace tagalong::models
