// The loaders of all architectures. Each is defined in the file of its name and listed once in registry.cpp.
#pragma once

#include <memory>

#include "models/model.h"

namespace tagalong::models {

std::unique_ptr<Model> load_glm_moe_dsa(const checkpoint::Checkpoint& checkpoint, const LoadOptions& options);
std::unique_ptr<Model> load_qwen3_moe(const checkpoint::Checkpoint& checkpoint, const LoadOptions& options);

}  // namespace tagalong::models
