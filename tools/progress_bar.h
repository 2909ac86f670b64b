// A progress bar on stderr, and nothing at all where stderr is no terminal. Used by one thread.
#pragma once

#include <string>

namespace tagalong::tools {

class ProgressBar {
 public:
  ProgressBar();
  ~ProgressBar();  // clears the line
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Starts a new piece of work.
  void begin(std::string label, int total);
  void advance(int count = 1);

 private:
  void draw();

  bool terminal_;
  std::string label_;
  int total_ = 0;
  int done_ = 0;
  int drawn_percent_ = -1;
};

}  // namespace tagalong::tools
