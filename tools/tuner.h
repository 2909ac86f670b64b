// Finds settings that make passes over a model's experts, and its attention, faster on this machine.
//
// Settings are tried one at a time against the best so far, the two taking turns; one is taken over only if
// it was faster by 3 % twice, the second time in more rounds, and at the end all of them together only if
// they still beat the defaults by as much. So noise leaves the defaults as they are. What the passes compute
// is not looked at: no setting changes it.
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
// Of a layer's time: attention below it cannot make the layer faster by the margin, and keeps its default.
inline constexpr double kMeasurableShare = 1 - kWinningRatio;

// What is tuned: passes over experts, or attention.
class TuneSubject {
 public:
  virtual ~TuneSubject() = default;
  // Makes up a batch of `rows` rows: who goes to which expert, or how far each row looks back.
  virtual void draw(int rows) = 0;
  // Microseconds of one pass over the batch, on memory that no recent pass has touched.
  virtual double time(const kernels::Tuning& tuning) = 0;
  // That the last pass read, of weights or of the cache.
  virtual double bytes() const = 0;
};

class Tuner {
 public:
  // attention: null if the model has none to tune. threads: of the pool behind the subjects, which must
  // outlive the tuner.
  Tuner(TuneSubject& experts, TuneSubject* attention, int threads)
      : experts_(experts), attention_(attention), threads_(threads) {}

  // Who is told how it goes.
  struct Listener {
    std::function<void(const std::string& text)> progress;  // before each batch
    // The entries so far, by rows: from where they have small and large batches on, after each batch. What
    // has been found by then may be used, should the rest never come.
    std::function<void(const std::map<int, TuneEntry>& entries)> found;
  };

  // stream(): bytes per second that the machine reads at most, as measured until now; called after each
  // batch.
  void tune(TuneEffort effort, const std::function<double()>& stream, const Listener& listener);

  // The rows of the largest batch that tune() draws of experts, and of attention.
  static int most_rows(TuneEffort effort);
  static int most_attention_rows() { return 64; }  // more have tasks enough for every thread

 private:
  using Clock = std::chrono::steady_clock;

  TuneEntry tune_batch(int rows, TuneEffort effort, Clock::time_point deadline);

  TuneSubject& experts_;
  TuneSubject* attention_;
  int threads_;
};

}  // namespace tagalong::tools
