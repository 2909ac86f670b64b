// Writes a synthetic model as a Hugging Face directory, tensor by tensor: a model larger than memory can be
// made. The same seed writes the same bytes everywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>

#include "synthetic_model.h"

namespace tagalong::tools {

// Writes config.json and model.safetensors; each appears only when it is complete. Returns the bytes of all
// tensors. Throws InputError if anything cannot be written.
std::size_t write_checkpoint(const SyntheticModel& model, const std::filesystem::path& directory,
                             std::uint64_t seed, const std::function<void(int done, int total)>& progress);

}  // namespace tagalong::tools
