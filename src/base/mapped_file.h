// A whole file mapped read-only. Immutable after construction: any thread may read.
//
// The mapping keeps the size that the file had when it was opened; a file that is truncated afterwards
// faults, as with every mapping. Never writes.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace tagalong::base {

class MappedFile {
 public:
  // Throws InputError naming the file and the system's reason.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }

  // Lets go of the memory behind `part` of bytes(), which has been read and is not needed again soon. Reading
  // it once more is safe and comes from the file. Any thread, beside readers too.
  void release(std::span<const std::byte> part) const;

 private:
  void unmap() noexcept;

  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// The whole file as a string, at most `limit` bytes. Throws InputError naming the file.
std::string read_text_file(const std::filesystem::path& path, std::size_t limit = std::size_t{1} << 28);

}  // namespace tagalong::base
