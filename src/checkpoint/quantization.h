// What a checkpoint says about its quantisation, and the marks by which schemes that Tagalong does not read
// are recognised. Pure tables and functions; the decision how a weight is stored is the checkpoint's.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "checkpoint/config.h"

namespace tagalong::checkpoint {

struct DeclaredQuantization {
  std::string source;              // "config.json" or "hf_quant_config.json"; empty: nothing is declared
  std::string name;                // "modelopt NVFP4", "fp8", "compressed-tensors nvfp4-pack-quantized"
  bool contradicts_nvfp4 = false;  // ModelOpt NVFP4 tensors cannot be part of what is declared
};

// Reads quantization_config, or else hf_quant_config.json in `directory` if there is one.
DeclaredQuantization declared_quantization(const Config& config, const std::filesystem::path& directory);

// A tensor MODULE + suffix that only a scheme which is not implemented writes.
struct SchemeMark {
  std::string_view suffix;
  std::string_view scheme;
};
std::span<const SchemeMark> foreign_scheme_marks();

}  // namespace tagalong::checkpoint
