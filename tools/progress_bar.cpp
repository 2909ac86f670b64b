#include "progress_bar.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <utility>

namespace tagalong::tools {

namespace {
constexpr int kWidth = 30;
}

ProgressBar::ProgressBar() : terminal_(isatty(STDERR_FILENO) != 0) {}

ProgressBar::~ProgressBar() {
  if (terminal_ && drawn_percent_ >= 0) fmt::print(stderr, "\r\033[K");
}

void ProgressBar::begin(std::string label, int total) {
  label_ = std::move(label);
  total_ = total;
  done_ = 0;
  drawn_percent_ = -1;
  draw();
}

void ProgressBar::advance(int count) {
  done_ += count;
  draw();
}

void ProgressBar::draw() {
  if (!terminal_ || total_ <= 0) return;
  const int percent = static_cast<int>(std::int64_t{100} * done_ / total_);
  if (percent == drawn_percent_) return;
  drawn_percent_ = percent;
  const int filled = kWidth * percent / 100;
  fmt::print(stderr, "\r\033[K{} [{}{}] {:3}%", label_, std::string(static_cast<std::size_t>(filled), '#'),
             std::string(static_cast<std::size_t>(kWidth - filled), '.'), percent);
  std::fflush(stderr);
}

}  // namespace tagalong::tools
