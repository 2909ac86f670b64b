// Any bytes as a safetensors file: refused with an InputError, or every byte of every tensor can be read.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "checkpoint/safetensors.h"

namespace {

// The address sanitizer knows the end of a heap block, but not that of libFuzzer's buffer.
std::vector<std::byte> make_file(std::string_view input) {
  std::vector<std::byte> file;
  if (input.empty()) return file;
  const bool whole = (input.front() & 1) == 0;
  input.remove_prefix(1);
  if (!whole) {
    // The header reaches to the last '}', so that mutations need not guess its length.
    const std::size_t last = input.rfind('}');
    const std::uint64_t length = last == std::string_view::npos ? input.size() : last + 1;
    file.resize(sizeof(length));
    std::memcpy(file.data(), &length, sizeof(length));
  }
  const auto* bytes = reinterpret_cast<const std::byte*>(input.data());
  file.insert(file.end(), bytes, bytes + input.size());
  file.shrink_to_fit();
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::vector<std::byte> file = make_file({reinterpret_cast<const char*>(data), size});
  try {
    const auto contents = tagalong::checkpoint::parse_safetensors(file, "input");
    std::size_t bytes = 0;
    volatile unsigned sum = 0;  // or the reads would be optimised away
    for (const auto& tensor : contents.tensors) {
      const auto length =
          static_cast<std::size_t>(tensor.shape.elements()) * tagalong::tensor::dtype_bytes(tensor.dtype);
      for (std::size_t i = 0; i < length; ++i) sum = sum + std::to_integer<unsigned>(tensor.data[i]);
      bytes += length;
    }
    CHECK(bytes < file.size(), "{} bytes of tensors in {}", bytes, file.size());
  } catch (const tagalong::base::InputError&) {
  }
  return 0;
}
