// The list of architectures by config.json's model_type.
#include <array>
#include <string>
#include <string_view>

#include "checkpoint/checkpoint.h"
#include "models/architectures.h"

namespace tagalong::models {

namespace {

struct Architecture {
  std::string_view model_type;
  std::unique_ptr<Model> (*load)(const checkpoint::Checkpoint&, const LoadOptions&);
};

constexpr std::array kArchitectures{
    Architecture{"glm_moe_dsa", load_glm_moe_dsa},
    Architecture{"qwen3_moe", load_qwen3_moe},
};

}  // namespace

std::unique_ptr<Model> load_model(const checkpoint::Checkpoint& checkpoint, const LoadOptions& options) {
  const std::string type = checkpoint.config().model_type();
  std::string known;
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.model_type == type) return architecture.load(checkpoint, options);
    known += (known.empty() ? "" : ", ") + std::string(architecture.model_type);
  }
  checkpoint.config().fail("model_type", "'" + type + "' is not supported; supported: " + known);
}

}  // namespace tagalong::models
