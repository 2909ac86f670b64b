// A Hugging Face checkpoint directory: config.json and the tensors of model.safetensors, or of the shards
// that model.safetensors.index.json lists.
//
// How a weight is stored is decided by the tensors present and their dtypes, module by module; what
// config.json says about quantisation is only compared with that. A scheme that is not implemented is refused
// by its name, never read as something else.
//
// Movable; every view that it hands out stays valid as long as the Checkpoint, or what it was moved to,
// lives. Immutable after open(): any thread may read. Never converts or copies weights, never writes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "checkpoint/config.h"
#include "checkpoint/quantization.h"
#include "checkpoint/safetensors.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"
#include "tensor/weight_view.h"

namespace tagalong::checkpoint {

class Checkpoint {
 public:
  // Throws InputError naming the file or tensor, what was expected, what was found and the likely cause.
  static Checkpoint open(const std::filesystem::path& directory);

  const std::filesystem::path& directory() const { return directory_; }
  const Config& config() const { return config_; }

  bool has(std::string_view tensor) const { return find(tensor) != nullptr; }
  const tensor::Tensor& tensor(std::string_view name) const;

  // The weight of a module ("model.layers.1.mlp.experts.0.up_proj", whose tensor is ".weight" below it) or a
  // tensor named in full. `expected` is the logical shape, [out, in] whatever the packing. NVFP4 scales are
  // found, checked and attached.
  tensor::WeightView weight(std::string_view module_or_tensor, const tensor::Shape& expected) const;
  // nullopt if neither the module's weight nor a tensor of this name is there, in any scheme.
  std::optional<tensor::WeightView> optional_weight(std::string_view module_or_tensor,
                                                    const tensor::Shape& expected) const;

  // A small one-dimensional tensor (norm, bias) widened to float. `name` is exact, ".weight" or ".bias"
  // included. Values must be finite.
  std::vector<float> vector(std::string_view name, std::int64_t expected_length) const;

  // Lets go of the memory behind a weight that has been converted, or behind everything read so far. Views
  // stay valid: what is read again comes from the file again. Any thread.
  void release(const tensor::WeightView& weight) const;
  void release() const;

  // For inspection: all tensors sorted by name, and the files they lie in.
  std::span<const tensor::Tensor* const> tensors() const { return index_; }
  std::span<const SafetensorsFile> files() const { return files_; }
  std::size_t tensor_bytes() const;  // of all tensors together
  const DeclaredQuantization& declared() const { return declared_; }

 private:
  explicit Checkpoint(const std::filesystem::path& directory);
  void open_single(const std::filesystem::path& path);
  void open_shards(const std::filesystem::path& index_path);

  const tensor::Tensor* find(std::string_view name) const;
  const tensor::Tensor* find_weight(std::string_view module_or_tensor) const;
  const SchemeMark* foreign_scheme(std::string_view module) const;
  [[noreturn]] void missing(std::string_view name, std::string_view module) const;
  void check_shape(const tensor::Tensor& tensor, const tensor::Shape& expected, std::string_view cause) const;
  tensor::WeightView plain_weight(const tensor::Tensor& weight, std::string_view module,
                                  const tensor::Shape& expected) const;
  tensor::WeightView nvfp4_weight(const tensor::Tensor& weight, std::string_view module,
                                  const tensor::Shape& expected) const;

  // "DIRECTORY: tensor 'NAME': MESSAGE".
  template <typename... Args>
  [[nodiscard]] base::InputError tensor_error(std::string_view name, fmt::format_string<Args...> format,
                                              Args&&... args) const;

  std::filesystem::path directory_;
  Config config_;
  DeclaredQuantization declared_;
  std::vector<SafetensorsFile> files_;
  std::vector<const tensor::Tensor*> index_;  // into files_, sorted by name
};

}  // namespace tagalong::checkpoint
