#include "checkpoint/checkpoint.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "checkpoint/quote.h"
#include "checkpoint/shard_index.h"
#include "tensor/dtype.h"
#include "tensor/formats/nvfp4.h"

namespace tagalong::checkpoint {

namespace {

using base::input_error;
using tensor::DType;
using tensor::Format;
using tensor::Shape;
using tensor::Tensor;
using tensor::WeightView;

constexpr std::string_view kWeight = ".weight";

std::size_t bytes_of(const Tensor& tensor) {
  return static_cast<std::size_t>(tensor.shape.elements()) * tensor::dtype_bytes(tensor.dtype);
}

std::optional<Format> plain_format(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return Format::kF32;
    case DType::kF16:
      return Format::kF16;
    case DType::kBF16:
      return Format::kBF16;
    default:
      return std::nullopt;
  }
}

// The module of a tensor that may have been named in full.
std::string_view module_of(std::string_view name) {
  return name.ends_with(kWeight) ? name.substr(0, name.size() - kWeight.size()) : name;
}

float load_f32(const std::byte* data) {
  float value;
  std::memcpy(&value, data, sizeof(value));
  return value;
}

bool has_nan_scale(std::span<const std::byte> scales) {
  // 0x7F and 0xFF are e4m3's NaNs. Counted, not searched: the compiler turns this into vector code, and a
  // scale table of a large model has gigabytes.
  std::size_t count = 0;
  for (const std::byte scale : scales) count += (scale & std::byte{0x7F}) == std::byte{0x7F} ? 1U : 0U;
  return count > 0;
}

}  // namespace

template <typename... Args>
base::InputError Checkpoint::tensor_error(std::string_view name, fmt::format_string<Args...> format,
                                          Args&&... args) const {
  return input_error("{}: tensor {}: {}", directory_.string(), quote(name),
                     fmt::format(format, std::forward<Args>(args)...));
}

Checkpoint Checkpoint::open(const std::filesystem::path& directory) { return Checkpoint(directory); }

Checkpoint::Checkpoint(const std::filesystem::path& directory)
    : directory_([&] {
        std::error_code ignored;
        if (!std::filesystem::is_directory(directory, ignored)) {
          throw input_error(
              "{}: not a directory; a model is a directory with config.json and model.safetensors",
              directory.string());
        }
        return directory;
      }()),
      config_(Config::load(directory_)),
      declared_(declared_quantization(config_, directory_)) {
  const std::filesystem::path single = directory_ / "model.safetensors";
  const std::filesystem::path index = directory_ / "model.safetensors.index.json";
  std::error_code ignored;
  // Where both exist, the single file is the model, as for transformers.
  if (std::filesystem::exists(single, ignored)) {
    open_single(single);
  } else if (std::filesystem::exists(index, ignored)) {
    open_shards(index);
  } else {
    throw input_error("{}: neither model.safetensors nor model.safetensors.index.json is there",
                      directory_.string());
  }
}

void Checkpoint::open_single(const std::filesystem::path& path) {
  files_.emplace_back(path);
  index_.reserve(files_.front().tensors().size());
  for (const Tensor& tensor : files_.front().tensors()) index_.push_back(&tensor);
}

void Checkpoint::open_shards(const std::filesystem::path& index_path) {
  const ShardIndex index = load_shard_index(index_path);
  files_.reserve(index.shards.size());
  for (const std::string& shard : index.shards) files_.emplace_back(directory_ / shard);

  index_.reserve(index.tensors.size());
  for (const auto& [name, shard] : index.tensors) {
    const Tensor* tensor = files_[shard].find(name);
    if (tensor == nullptr) {
      throw tensor_error(name, "the index places it in {}, but it is not there; shards of another download?",
                         index.shards[shard]);
    }
    index_.push_back(tensor);
  }
  // A second tensor of a listed name would leave open which one is meant. What no index entry names is simply
  // not part of the model.
  for (std::size_t shard = 0; shard < files_.size(); ++shard) {
    for (const Tensor& tensor : files_[shard].tensors()) {
      const Tensor* listed = find(tensor.name);
      if (listed != nullptr && listed != &tensor) {
        throw tensor_error(tensor.name, "is also in {}, where the index does not place it",
                           index.shards[shard]);
      }
    }
  }
}

const Tensor* Checkpoint::find(std::string_view name) const {
  const auto found =
      std::lower_bound(index_.begin(), index_.end(), name,
                       [](const Tensor* tensor, std::string_view wanted) { return tensor->name < wanted; });
  return found != index_.end() && (*found)->name == name ? *found : nullptr;
}

const Tensor* Checkpoint::find_weight(std::string_view module_or_tensor) const {
  const Tensor* tensor = find(std::string(module_or_tensor) + std::string(kWeight));
  return tensor != nullptr ? tensor : find(module_or_tensor);
}

const SchemeMark* Checkpoint::foreign_scheme(std::string_view module) const {
  for (const SchemeMark& mark : foreign_scheme_marks()) {
    if (has(std::string(module) + std::string(mark.suffix))) return &mark;
  }
  return nullptr;
}

void Checkpoint::missing(std::string_view name, std::string_view module) const {
  // What lies below the module, or else below its parents, tells a wrong prefix from a missing layer.
  for (std::string_view prefix = module; !prefix.empty();) {
    const std::string below = std::string(prefix) + ".";
    auto place = std::lower_bound(
        index_.begin(), index_.end(), below,
        [](const Tensor* tensor, const std::string& wanted) { return tensor->name < wanted; });
    if (place != index_.end() && (*place)->name.starts_with(below)) {
      throw tensor_error(name, "missing; below {} there is {}{}", quote(prefix), quote((*place)->name),
                         std::next(place) != index_.end() && (*std::next(place))->name.starts_with(below)
                             ? " and more"
                             : " only");
    }
    const std::size_t dot = prefix.rfind('.');
    prefix = prefix.substr(0, dot == std::string_view::npos ? 0 : dot);
  }
  throw tensor_error(name,
                     "missing; none of the {} tensors shares its first name, is this another architecture?",
                     index_.size());
}

const Tensor& Checkpoint::tensor(std::string_view name) const {
  const Tensor* tensor = find(name);
  if (tensor == nullptr) missing(name, module_of(name));
  return *tensor;
}

void Checkpoint::check_shape(const Tensor& tensor, const Shape& expected, std::string_view cause) const {
  if (tensor.shape == expected) return;
  throw tensor_error(tensor.name, "expected shape {}, found {}; {}", to_string(expected),
                     to_string(tensor.shape), cause);
}

WeightView Checkpoint::weight(std::string_view module_or_tensor, const Shape& expected) const {
  const std::string_view module = module_of(module_or_tensor);
  if (const SchemeMark* mark = foreign_scheme(module)) {
    throw tensor_error(std::string(module) + std::string(mark->suffix),
                       "belongs to {}, which is not implemented; ModelOpt NVFP4, BF16, F16 and F32 are",
                       mark->scheme);
  }
  const Tensor* tensor = find_weight(module_or_tensor);
  if (tensor == nullptr) missing(std::string(module) + std::string(kWeight), module);
  return tensor->dtype == DType::kU8 ? nvfp4_weight(*tensor, module, expected)
                                     : plain_weight(*tensor, module, expected);
}

std::optional<WeightView> Checkpoint::optional_weight(std::string_view module_or_tensor,
                                                      const Shape& expected) const {
  if (find_weight(module_or_tensor) == nullptr && foreign_scheme(module_of(module_or_tensor)) == nullptr) {
    return std::nullopt;
  }
  return weight(module_or_tensor, expected);
}

WeightView Checkpoint::plain_weight(const Tensor& weight, std::string_view module,
                                    const Shape& expected) const {
  const std::optional<Format> format = plain_format(weight.dtype);
  if (!format) {
    const bool fp8 = weight.dtype == DType::kF8E4M3 || weight.dtype == DType::kF8E5M2;
    throw tensor_error(weight.name, "{} weights{} are not implemented; ModelOpt NVFP4, BF16, F16 and F32 are",
                       tensor::dtype_name(weight.dtype), fp8 ? " (FP8)" : "");
  }
  check_shape(weight, expected,
              weight.shape == (expected.rank() == 2 ? Shape{expected[1], expected[0]} : expected)
                  ? "transposed?"
                  : "does config.json belong to these tensors?");
  if (const std::string scale = std::string(module) + ".weight_scale"; has(scale)) {
    throw tensor_error(scale, "scales for {}, which is plain {}; a scheme that is not implemented?",
                       quote(weight.name), tensor::dtype_name(weight.dtype));
  }
  return {.name = std::string(module),
          .format = *format,
          .shape = weight.shape,
          .data = weight.data,
          .scales = {}};
}

WeightView Checkpoint::nvfp4_weight(const Tensor& weight, std::string_view module,
                                    const Shape& expected) const {
  const std::string scale_name = std::string(module) + ".weight_scale";
  const std::string factor_name = std::string(module) + ".weight_scale_2";
  const Tensor* scale = find(scale_name);
  if (scale == nullptr) {
    throw tensor_error(scale_name, "missing, and {} is U8; NVFP4 without its scales, or another scheme?",
                       quote(weight.name));
  }
  if (scale->dtype == DType::kU8 || scale->dtype == DType::kF8E8M0) {
    throw tensor_error(scale_name, "{} scales mark MXFP4, which is not implemented; ModelOpt NVFP4 is",
                       tensor::dtype_name(scale->dtype));
  }
  if (scale->dtype != DType::kF8E4M3) {
    throw tensor_error(scale_name, "expected F8_E4M3 (NVFP4), found {}", tensor::dtype_name(scale->dtype));
  }
  if (declared_.contradicts_nvfp4) {
    throw tensor_error(weight.name, "looks like NVFP4, but {} declares quantization {}", declared_.source,
                       quote(declared_.name));
  }
  if (expected.rank() != 2 || expected[1] % tensor::kNvfp4Group != 0) {
    throw tensor_error(weight.name,
                       "NVFP4 needs a matrix with an input dimension divisible by {}, expected {}",
                       tensor::kNvfp4Group, to_string(expected));
  }
  check_shape(weight, {expected[0], expected[1] / 2},
              fmt::format("NVFP4 packs two of {} into a byte, does config.json belong to these tensors?",
                          to_string(expected)));
  check_shape(
      *scale, {expected[0], expected[1] / tensor::kNvfp4Group},
      fmt::format("NVFP4 has a scale for each {} inputs of {}", tensor::kNvfp4Group, to_string(expected)));
  if (has_nan_scale({scale->data, bytes_of(*scale)})) {
    throw tensor_error(scale_name, "holds NaN scales (0x7F or 0xFF); damaged file or failed calibration?");
  }

  const Tensor* factor = find(factor_name);
  if (factor == nullptr) {
    throw tensor_error(factor_name, "missing; NVFP4 needs a factor beside {}", quote(scale_name));
  }
  if (factor->dtype != DType::kF32 || (factor->shape != Shape{} && factor->shape != Shape{1})) {
    throw tensor_error(factor_name, "expected an F32 scalar, found {} {}", tensor::dtype_name(factor->dtype),
                       to_string(factor->shape));
  }
  const float value = load_f32(factor->data);
  if (!std::isfinite(value) || value <= 0) {
    throw tensor_error(factor_name, "expected a positive finite factor, found {}", value);
  }
  return {.name = std::string(module),
          .format = Format::kNVFP4,
          .shape = expected,
          .data = weight.data,
          .scales = {.block = scale->data, .tensor = value}};
}

std::vector<float> Checkpoint::vector(std::string_view name, std::int64_t expected_length) const {
  const Tensor& tensor = this->tensor(name);
  const std::optional<Format> format = plain_format(tensor.dtype);
  if (!format) {
    throw tensor_error(name, "expected F32, BF16 or F16, found {}", tensor::dtype_name(tensor.dtype));
  }
  check_shape(tensor, {expected_length}, "does config.json belong to these tensors?");
  const WeightView view{
      .name = tensor.name, .format = *format, .shape = tensor.shape, .data = tensor.data, .scales = {}};
  std::vector<float> values(static_cast<std::size_t>(expected_length));
  tensor::read_row(view, 0, values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) throw tensor_error(name, "element {} is {}; damaged file?", i, values[i]);
  }
  return values;
}

void Checkpoint::release(const tensor::WeightView& weight) const {
  const auto elements = static_cast<std::size_t>(weight.shape.elements());
  const std::size_t all_bytes = tensor::format_bytes(weight.format, weight.shape.elements());
  // With scales of groups, the values take a byte each (Q8) or half of one.
  const std::size_t value_bytes = weight.format == tensor::Format::kQ8 ? elements : elements / 2;
  const std::size_t scale_bytes = weight.scales.block == nullptr ? 0 : all_bytes - value_bytes;
  const std::size_t data_bytes = all_bytes - scale_bytes;
  const auto release_part = [this](const std::byte* data, std::size_t size) {
    for (const SafetensorsFile& file : files_) {
      const std::span<const std::byte> bytes = file.file().bytes();
      if (data >= bytes.data() && data + size <= bytes.data() + bytes.size())
        file.file().release({data, size});
    }
  };
  release_part(weight.data, data_bytes);
  if (scale_bytes > 0) release_part(weight.scales.block, scale_bytes);
}

void Checkpoint::release() const {
  for (const SafetensorsFile& file : files_) file.file().release(file.file().bytes());
}

std::size_t Checkpoint::tensor_bytes() const {
  std::size_t sum = 0;  // cannot overflow: tensors tile their files
  for (const Tensor* tensor : index_) sum += bytes_of(*tensor);
  return sum;
}

}  // namespace tagalong::checkpoint
