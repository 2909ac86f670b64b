#include "checkpoint/quantization.h"

#include <array>
#include <optional>

#include "base/error.h"
#include "base/mapped_file.h"
#include "tensor/formats/nvfp4.h"

namespace tagalong::checkpoint {

namespace {

constexpr std::array kMarks{
    SchemeMark{".pre_quant_scale", "NVFP4_AWQ (ModelOpt with activation pre-scales)"},
    SchemeMark{".svdquant_lora_a", "NVFP4_SVD (ModelOpt with low-rank corrections)"},
    SchemeMark{".svdquant_lora_b", "NVFP4_SVD (ModelOpt with low-rank corrections)"},
    SchemeMark{".weight_scale_inv", "FP8 with block scales"},
    SchemeMark{".weight_packed", "compressed-tensors packed weights"},
    SchemeMark{".weight_global_scale", "compressed-tensors NVFP4"},
    SchemeMark{".weight_zero_point", "compressed-tensors with zero points"},
    SchemeMark{".qweight", "GPTQ or AWQ integers"},
    SchemeMark{".SCB", "bitsandbytes INT8"},
    SchemeMark{".weight.absmax", "bitsandbytes 4-bit"},
    SchemeMark{"_blocks", "MXFP4 blocks (gpt-oss)"},
};

// NVFP4 tensors are read alike whatever the activations were calibrated for, so every algorithm whose weights
// are plain ModelOpt NVFP4 will do.
bool admits_nvfp4(std::string_view algorithm) {
  return algorithm == "NVFP4" || algorithm == "W4A16_NVFP4" || algorithm == "MIXED_PRECISION";
}

void check_group_size(const Config& config) {
  const std::int64_t group = config.integer_or("group_size", tensor::kNvfp4Group);
  if (group != tensor::kNvfp4Group) {
    config.fail("group_size", fmt::format("NVFP4 has groups of {}, found {}", tensor::kNvfp4Group, group));
  }
}

DeclaredQuantization from_config(const Config& declared) {
  const std::string method = declared.string_or("quant_method", "");
  const std::string algorithm = declared.string_or("quant_algo", declared.string_or("format", ""));
  const bool nvfp4_experts = declared.string_or("moe_quant_algo", "") == "NVFP4";
  DeclaredQuantization result{.source = "config.json", .name = method};
  if (!algorithm.empty()) result.name += (method.empty() ? "" : " ") + algorithm;
  if (result.name.empty()) result.name = "without a name";
  result.contradicts_nvfp4 =
      !nvfp4_experts && ((!method.empty() && method != "modelopt" && method != "modelopt_fp4") ||
                         (!algorithm.empty() && !admits_nvfp4(algorithm)));
  if (algorithm == "NVFP4") check_group_size(declared);
  return result;
}

}  // namespace

DeclaredQuantization declared_quantization(const Config& config, const std::filesystem::path& directory) {
  if (const auto declared = config.optional_object("quantization_config")) return from_config(*declared);
  const std::filesystem::path path = directory / "hf_quant_config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return {};
  constexpr std::size_t kMaxFileBytes = std::size_t{16} << 20;
  const Config root = Config::parse(base::read_text_file(path, kMaxFileBytes), path.string());
  const auto declared = root.optional_object("quantization");
  if (!declared || !declared->has("quant_algo")) return {};
  const std::string algorithm = declared->string("quant_algo");
  if (algorithm == "NVFP4") check_group_size(*declared);
  return {.source = "hf_quant_config.json",
          .name = "modelopt " + algorithm,
          .contradicts_nvfp4 = !admits_nvfp4(algorithm)};
}

std::span<const SchemeMark> foreign_scheme_marks() { return kMarks; }

}  // namespace tagalong::checkpoint
