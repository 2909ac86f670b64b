// For tests: writes safetensors files, whole or deliberately wrong, and catches the message of a refusal.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace tagalong::checkpoint {

struct TestTensor {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::string bytes;
};

// A file with this header text, whatever it says, and these data.
inline std::string file_with_header(std::string_view header, std::string_view data = "") {
  const auto length = static_cast<std::uint64_t>(header.size());
  std::string file(sizeof(length), '\0');
  std::memcpy(file.data(), &length, sizeof(length));
  file += header;
  return file += data;
}

// A correct file with the tensors' data in the given order; names need no escaping.
inline std::string write_safetensors(const std::vector<TestTensor>& tensors, std::string_view metadata = "") {
  std::string header = "{";
  std::string data;
  if (!metadata.empty()) header += fmt::format("\"__metadata__\":{}", metadata);
  for (const TestTensor& tensor : tensors) {
    header += fmt::format("{}\"{}\":{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                          header.size() > 1 ? "," : "", tensor.name, tensor.dtype,
                          fmt::join(tensor.shape, ","), data.size(), data.size() + tensor.bytes.size());
    data += tensor.bytes;
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');  // as writers align the data
  return file_with_header(header, data);
}

inline std::string f32_bytes(const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// A folder of its own that goes away with the object.
class TestFolder {
 public:
  TestFolder() {
    static std::atomic<int> count = 0;
    path_ = std::filesystem::path(testing::TempDir()) / fmt::format("tagalong_{}_{}", ::getpid(), count++);
    std::filesystem::create_directories(path_);
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void write(std::string_view name, std::string_view content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
  }

 private:
  std::filesystem::path path_;
};

// The message with which `action` refuses; empty if it does not, which no test expects.
template <typename Action>
std::string refusal(Action action) {
  try {
    action();
  } catch (const base::InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace tagalong::checkpoint
