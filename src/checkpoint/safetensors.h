// One safetensors file, mapped: a header that names tensors, and their bytes.
//
// Everything that the header claims is checked before anything is handed out: a tensor that can be found lies
// wholly inside the file, and no byte of the file belongs to two tensors or to none. Immutable after
// construction, any thread may read. Never copies, converts or writes tensor data, and never looks at values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "tensor/tensor.h"

namespace tagalong::checkpoint {

struct SafetensorsContents {
  std::vector<tensor::Tensor> tensors;          // sorted by name; data points into the parsed bytes
  std::map<std::string, std::string> metadata;  // "__metadata__"
};

// Reads the bytes of a whole file; `origin` names it in messages. Throws InputError.
SafetensorsContents parse_safetensors(std::span<const std::byte> file, std::string_view origin);

class SafetensorsFile {
 public:
  // Throws InputError naming the file, the tensor, what was expected and what was found.
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  std::size_t file_bytes() const { return file_.bytes().size(); }
  // Sorted by name. Addresses stay valid when the file object is moved.
  std::span<const tensor::Tensor> tensors() const { return contents_.tensors; }
  const std::map<std::string, std::string>& metadata() const { return contents_.metadata; }
  // nullptr if the file has no such tensor.
  const tensor::Tensor* find(std::string_view name) const;
  const base::MappedFile& file() const { return file_; }

 private:
  base::MappedFile file_;
  SafetensorsContents contents_;
};

}  // namespace tagalong::checkpoint
