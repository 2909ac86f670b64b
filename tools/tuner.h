// Finds settings that make passes over a model's experts faster on this machine.
//
// Settings are tried one at a time against the best so far, the two taking turns; one is taken over only if
// it was faster by 3 % twice, the second time in more rounds. So noise leaves the defaults as they are. What
// the passes compute is not looked at: no setting changes it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "kernels/tuning.h"
#include "tune_store.h"

namespace tagalong::tools {

enum class TuneEffort : std::uint8_t {
  kQuick,  // few batches and settings, within kQuickSeconds
  kFull,   // all of them, until nothing helps any more
};

inline constexpr double kWinningRatio = 0.97;  // a change must be faster by three hundredths
inline constexpr double kQuickSeconds = 8;     // with what comes before and after, below ten

// What is tuned.
class TuneSubject {
 public:
  virtual ~TuneSubject() = default;
  // Makes up a batch of `rows` rows and who goes to which expert.
  virtual void draw(int rows) = 0;
  // Microseconds of one pass over the batch, on experts that no recent pass has touched.
  virtual double time(const kernels::Tuning& tuning) = 0;
  // Of weights, that the last pass read.
  virtual double bytes() const = 0;
};

class Tuner {
 public:
  // threads: of the pool behind the subject, which must outlive the tuner.
  Tuner(TuneSubject& subject, int threads) : subject_(subject), threads_(threads) {}

  // Entries by rows of the batch. stream: bytes per second that the machine reads at most. progress(text) is
  // called before each batch.
  std::map<int, TuneEntry> tune(TuneEffort effort, double stream,
                                const std::function<void(const std::string&)>& progress);

  // The rows of the largest batch that tune() draws.
  static int most_rows(TuneEffort effort);

 private:
  using Clock = std::chrono::steady_clock;

  // Of B against A: the median of B / A over pairs of neighbouring passes.
  double ratio(const kernels::Tuning& a, const kernels::Tuning& b, int rows, int pairs);
  // B is faster than A by the margin, and again.
  bool wins(const kernels::Tuning& b, const kernels::Tuning& a, int rows);
  TuneEntry search(int rows, TuneEffort effort, Clock::time_point deadline);
  TuneEntry measure(const kernels::Tuning& tuning, int rows, int pairs);

  TuneSubject& subject_;
  int threads_;
};

}  // namespace tagalong::tools
