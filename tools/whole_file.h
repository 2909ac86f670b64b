// A file that appears under its name only when it is complete. One thread.
#pragma once

#include <filesystem>
#include <fstream>
#include <ostream>

namespace tagalong::tools {

class WholeFile {
 public:
  // Throws base::InputError naming the file if it cannot be written; so does finish().
  explicit WholeFile(std::filesystem::path path);
  // Removes what was written if finish() was not reached.
  ~WholeFile();
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  // A full disk shows in finish(), not here.
  std::ostream& stream() { return stream_; }
  void finish();

 private:
  void check() const;

  std::filesystem::path path_;
  std::filesystem::path partial_;
  std::ofstream stream_;
  bool done_ = false;
};

}  // namespace tagalong::tools
