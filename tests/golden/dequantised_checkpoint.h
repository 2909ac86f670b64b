// A copy of a checkpoint with its NVFP4 weights widened to F32 (exactly: six significant bits times an fp32
// factor, rounded once), in a folder that goes away with the object. Other tensors are copied as they are.
#pragma once

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_testing.h"
#include "tensor/weight_view.h"

namespace tagalong::testing_support {

class DequantisedCheckpoint {
 public:
  explicit DequantisedCheckpoint(const std::filesystem::path& directory) {
    const auto file = checkpoint::Checkpoint::open(directory);
    std::vector<checkpoint::TestTensor> tensors;
    for (const tensor::Tensor* tensor : file.tensors()) {
      const std::string_view name = tensor->name;
      if (name.ends_with(".weight_scale") || name.ends_with(".weight_scale_2")) continue;
      const auto extents = tensor->shape.extents();
      std::vector<std::int64_t> shape(extents.begin(), extents.end());
      if (tensor->dtype != tensor::DType::kU8) {
        const auto bytes =
            static_cast<std::size_t>(tensor->shape.elements()) * tensor::dtype_bytes(tensor->dtype);
        tensors.push_back({tensor->name, std::string(tensor::dtype_name(tensor->dtype)), shape,
                           std::string(reinterpret_cast<const char*>(tensor->data), bytes)});
        continue;
      }
      shape[1] *= 2;
      const auto weight =
          file.weight(name.substr(0, name.size() - std::string_view(".weight").size()), {shape[0], shape[1]});
      std::vector<float> values;
      for (std::int64_t r = 0; r < shape[0]; ++r) {
        for (std::int64_t c = 0; c < shape[1]; ++c) values.push_back(tensor::weight_at(weight, r, c));
      }
      tensors.push_back({tensor->name, "F32", shape, checkpoint::f32_bytes(values)});
    }
    folder_.write("model.safetensors", checkpoint::write_safetensors(tensors));
    std::filesystem::copy_file(directory / "config.json", folder_.path() / "config.json");
  }

  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  checkpoint::TestFolder folder_;
};

}  // namespace tagalong::testing_support
