#include "tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <vector>

#include "ceilings.h"

namespace tagalong::tools {

namespace {

using kernels::Tuning;

constexpr int kTrialPairs = 7;
constexpr int kConfirmPairs = 15;
constexpr int kFullPasses = 3;
constexpr double kFullSeconds = 3600;  // of all batches; a full search of a large model takes minutes

// One setting set to a value. The schedule has no number: it is turned over.
struct Change {
  int Tuning::*field;  // null: the schedule
  int value;

  bool operator==(const Change&) const = default;
};

Tuning with(Tuning tuning, const Change& change) {
  if (change.field != nullptr) {
    tuning.*change.field = change.value;
  } else {
    tuning.schedule =
        tuning.schedule == base::Schedule::kStatic ? base::Schedule::kStealing : base::Schedule::kStatic;
  }
  return tuning;
}

// What to try on passes over experts, likeliest gains first.
std::vector<Change> expert_changes(TuneEffort effort, int threads) {
  std::vector<Change> all;
  const auto vary = [&](int Tuning::*field, std::initializer_list<int> values) {
    for (const int value : values) {
      const Change change{field, value};
      if (std::find(all.begin(), all.end(), change) == all.end()) all.push_back(change);
    }
  };
  vary(&Tuning::project_tiles, {4, 16});
  vary(&Tuning::prefetch, {4608, 9216});
  vary(&Tuning::activate_tiles, {2, 4});
  all.push_back({nullptr, 0});
  vary(&Tuning::row_tile, {6});
  if (effort == TuneEffort::kQuick) return all;
  vary(&Tuning::project_tiles, {1, 2, 8, 32, 64});
  vary(&Tuning::prefetch, {0, 2304, 6912, 12288});
  vary(&Tuning::activate_tiles, {1, 3, 6, 8, 16});
  vary(&Tuning::row_tile, {1, 2, 3, 4, 5, 7, 8});
  if (threads > 1) {
    vary(&Tuning::activate_workers, {0, threads / 2, threads - 1});
    vary(&Tuning::project_workers, {0, threads / 2, threads - 1});
  }
  return all;
}

std::vector<Change> attention_changes(TuneEffort effort) {
  std::vector<Change> all;
  const auto vary = [&](std::initializer_list<int> values) {
    for (const int value : values) all.push_back({&Tuning::attention_tasks, value});
  };
  vary({1, 4, 8});
  if (effort == TuneEffort::kFull) vary({2, 3, 6, 16});
  return all;
}

// These say something about batches of any size.
constexpr std::array kQuickBatches{1, 4, 16, 64};

std::vector<int> batches_of(TuneEffort effort) {
  std::vector<int> rows(kQuickBatches.begin(), kQuickBatches.end());
  if (effort == TuneEffort::kQuick) return rows;
  for (int i = 0; i < kernels::TuningTable::kBuckets; ++i) {
    const int all = kernels::TuningTable::rows_of(i);
    if (std::find(kQuickBatches.begin(), kQuickBatches.end(), all) == kQuickBatches.end())
      rows.push_back(all);
  }
  return rows;
}

// What one setting takes, beside the defaults in the same rounds.
struct Measured {
  double microseconds;
  double default_microseconds;
  double ratio;   // median over the rounds
  double spread;  // (third quartile - first) / median
  double bytes_per_second;
};

// One subject at one size of batch.
class Trial {
 public:
  using Clock = std::chrono::steady_clock;

  Trial(TuneSubject& subject, int rows, Clock::time_point deadline)
      : subject_(subject), rows_(rows), deadline_(deadline) {
    subject_.draw(rows_);
    subject_.time({});  // wakes the threads and touches the pages
    pass_microseconds_ = subject_.time({});
  }

  double pass_microseconds() const { return pass_microseconds_; }  // under the defaults, of one sample

  // The best of `best` and what the changes make of it, as far as the time allows.
  Tuning search(const std::vector<Change>& changes, int passes, Tuning best) {
    for (int pass = 0; pass < passes; ++pass) {
      const Tuning before = best;
      for (const Change& change : changes) {
        // Begun only if a trial, its confirmation and two closing measurements fit in what is left.
        if (pairs_left() < 3 * kTrialPairs + kConfirmPairs) break;
        const Tuning candidate = with(best, change);
        if (candidate != best && wins(candidate, best)) best = candidate;
      }
      if (best == before) break;
    }
    return best;
  }

  // Measures `best`, which is taken back to `plain` if it is no clear gain over the defaults after all: what
  // was better while something else disturbed the machine. `plain` is as fast as the defaults.
  Measured confirm(Tuning& best, const Tuning& plain) {
    const Measured measured = measure(best);
    if (best == plain || measured.ratio < kWinningRatio) return measured;
    best = plain;
    return measure(best);
  }

 private:
  Measured measure(const Tuning& tuning) {
    std::vector<double> times;
    std::vector<double> defaults;
    std::vector<double> ratios;
    std::vector<double> rates;
    const int pairs = static_cast<int>(std::clamp(pairs_left(), 1.0, 1.0 * kTrialPairs));
    for (int i = 0; i < pairs; ++i) {
      subject_.draw(rows_);
      defaults.push_back(subject_.time({}));
      times.push_back(subject_.time(tuning));
      ratios.push_back(times.back() / defaults.back());
      rates.push_back(subject_.bytes() / times.back() * 1e6);
    }
    std::vector<double> sorted = times;
    std::sort(sorted.begin(), sorted.end());
    const auto quartile = [&sorted](std::size_t quarters) {
      return sorted[(sorted.size() - 1) * quarters / 4];
    };
    const double middle = median(times);
    return {.microseconds = middle,
            .default_microseconds = median(defaults),
            .ratio = median(ratios),
            .spread = (quartile(3) - quartile(1)) / middle,
            .bytes_per_second = median(rates)};
  }

  double pairs_left() const {
    return std::chrono::duration<double, std::micro>(deadline_ - Clock::now()).count() /
           (2 * pass_microseconds_);
  }

  // Of B against A: the median of B / A over pairs of neighbouring passes.
  double ratio(const Tuning& a, const Tuning& b, int pairs) {
    std::vector<double> ratios;
    for (int i = 0; i < pairs; ++i) {
      subject_.draw(rows_);
      const double first = subject_.time(a);
      ratios.push_back(subject_.time(b) / first);
    }
    return median(ratios);
  }

  // B is faster than A by the margin, and again.
  bool wins(const Tuning& b, const Tuning& a) {
    return ratio(a, b, kTrialPairs) < kWinningRatio && ratio(a, b, kConfirmPairs) < kWinningRatio;
  }

  TuneSubject& subject_;
  int rows_;
  Clock::time_point deadline_;
  double pass_microseconds_ = 0;
};

}  // namespace

int Tuner::most_rows(TuneEffort effort) {
  const std::vector<int> batches = batches_of(effort);
  return *std::max_element(batches.begin(), batches.end());
}

TuneEntry Tuner::tune_batch(int rows, TuneEffort effort, Clock::time_point deadline) {
  const int passes = effort == TuneEffort::kFull ? kFullPasses : 1;
  const bool with_attention = attention_ != nullptr && rows <= most_attention_rows();
  const auto now = Clock::now();
  Trial experts(experts_, rows, with_attention ? now + (deadline - now) * 3 / 4 : deadline);
  TuneEntry entry;
  entry.tuning = experts.search(expert_changes(effort, threads_), passes, {});
  const Measured layer = experts.confirm(entry.tuning, {});
  entry.microseconds = layer.microseconds;
  entry.default_microseconds = layer.default_microseconds;
  entry.spread = layer.spread;
  entry.bytes_per_second = layer.bytes_per_second;
  if (!with_attention) return entry;

  Trial attention(*attention_, rows, deadline);
  const Tuning plain = entry.tuning;
  const double all = entry.microseconds + attention.pass_microseconds();
  if (attention.pass_microseconds() >= kMeasurableShare * all) {
    entry.tuning = attention.search(attention_changes(effort), passes, entry.tuning);
  }
  const Measured measured = attention.confirm(entry.tuning, plain);
  entry.attention_microseconds = measured.microseconds;
  entry.attention_default_microseconds = measured.default_microseconds;
  return entry;
}

void Tuner::tune(TuneEffort effort, const std::function<double()>& stream, const Listener& listener) {
  const std::vector<int> batches = batches_of(effort);
  const auto start = Clock::now();
  std::map<int, TuneEntry> entries;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    // Each batch has a share of the time; what one leaves over goes to those after it.
    const double share = kQuickSeconds * static_cast<double>(i + 1) / static_cast<double>(batches.size());
    const auto seconds = effort == TuneEffort::kFull ? std::chrono::duration<double>(kFullSeconds)
                                                     : std::chrono::duration<double>(share);
    const auto deadline = start + std::chrono::duration_cast<Clock::duration>(seconds);
    if (Clock::now() < deadline) {
      listener.progress(fmt::format("tuning for batches of {}, {} of {}", batches[i], i + 1, batches.size()));
      TuneEntry entry = tune_batch(batches[i], effort, deadline);
      entry.share_of_stream = entry.bytes_per_second / stream();
      entries[batches[i]] = entry;
    }
    if (i + 1 >= kQuickBatches.size()) listener.found(entries);
  }
}

}  // namespace tagalong::tools
