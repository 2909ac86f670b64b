#include "whole_file.h"

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace tagalong::tools {

WholeFile::WholeFile(std::filesystem::path path) : path_(std::move(path)), partial_(path_) {
  partial_ += ".partial";
  stream_.open(partial_, std::ios::binary | std::ios::trunc);
  check();
}

WholeFile::~WholeFile() {
  std::error_code ignored;
  if (!done_) std::filesystem::remove(partial_, ignored);
}

void WholeFile::finish() {
  stream_.close();
  check();
  std::filesystem::rename(partial_, path_);
  done_ = true;
}

void WholeFile::check() const {
  if (!stream_) throw base::input_error("{}: cannot be written: {}", path_.string(), std::strerror(errno));
}

}  // namespace tagalong::tools
