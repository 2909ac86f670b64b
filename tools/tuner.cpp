#include "tuner.h"

#include <fmt/format.h>

#include <algorithm>
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

// What to try, likeliest gains first.
std::vector<Change> changes(TuneEffort effort, int threads) {
  std::vector<Change> all;
  const auto vary = [&](int Tuning::*field, std::initializer_list<int> values) {
    for (const int value : values) all.push_back({field, value});
  };
  vary(&Tuning::project_tiles, {2, 8});
  vary(&Tuning::prefetch, {4608, 9216});
  vary(&Tuning::activate_tiles, {2, 4});
  all.push_back({nullptr, 0});
  vary(&Tuning::row_tile, {6});
  if (effort == TuneEffort::kQuick) return all;
  vary(&Tuning::project_tiles, {1, 3, 4, 6, 16, 32});
  vary(&Tuning::prefetch, {0, 2304, 4608, 6912, 9216, 13824});
  vary(&Tuning::activate_tiles, {1, 3, 6, 8, 16});
  vary(&Tuning::row_tile, {1, 2, 3, 4, 5, 7, 8});
  if (threads > 1) {
    vary(&Tuning::activate_workers, {0, threads / 2, threads - 1});
    vary(&Tuning::project_workers, {0, threads / 2, threads - 1});
  }
  return all;
}

std::vector<int> batches_of(TuneEffort effort) {
  if (effort == TuneEffort::kQuick) return {1, 4, 16, 64};
  std::vector<int> rows;
  for (int i = 0; i < kernels::TuningTable::kBuckets; ++i) rows.push_back(kernels::TuningTable::rows_of(i));
  return rows;
}

}  // namespace

int Tuner::most_rows(TuneEffort effort) { return batches_of(effort).back(); }

double Tuner::ratio(const Tuning& a, const Tuning& b, int rows, int pairs) {
  std::vector<double> ratios;
  for (int i = 0; i < pairs; ++i) {
    subject_.draw(rows);
    const double first = subject_.time(a);
    ratios.push_back(subject_.time(b) / first);
  }
  return median(ratios);
}

bool Tuner::wins(const Tuning& b, const Tuning& a, int rows) {
  return ratio(a, b, rows, kTrialPairs) < kWinningRatio && ratio(a, b, rows, kConfirmPairs) < kWinningRatio;
}

TuneEntry Tuner::measure(const Tuning& tuning, int rows, int pairs) {
  std::vector<double> times;
  std::vector<double> defaults;
  std::vector<double> rates;
  for (int i = 0; i < pairs; ++i) {
    subject_.draw(rows);
    defaults.push_back(subject_.time({}));
    times.push_back(subject_.time(tuning));
    rates.push_back(subject_.bytes() / times.back() * 1e6);
  }
  const auto quartile = [&times](std::size_t quarters) {
    std::vector<double> sorted = times;
    std::sort(sorted.begin(), sorted.end());
    return sorted[(sorted.size() - 1) * quarters / 4];
  };
  TuneEntry entry{.tuning = tuning, .microseconds = median(times), .default_microseconds = median(defaults)};
  entry.spread = (quartile(3) - quartile(1)) / entry.microseconds;
  entry.bytes_per_second = median(rates);
  return entry;
}

TuneEntry Tuner::search(int rows, TuneEffort effort, Clock::time_point deadline) {
  subject_.draw(rows);
  subject_.time({});  // wakes the threads and touches the pages
  Tuning best;
  const double pair_seconds = 2e-6 * subject_.time(best);
  const auto seconds_left = [deadline] {
    return std::chrono::duration<double>(deadline - Clock::now()).count();
  };
  const int passes = effort == TuneEffort::kFull ? kFullPasses : 1;
  for (int pass = 0; pass < passes; ++pass) {
    const Tuning before = best;
    for (const Change& change : changes(effort, threads_)) {
      // Begun only if a trial, its confirmation and the closing measurement fit in what is left.
      if (pair_seconds * (2 * kTrialPairs + kConfirmPairs) > seconds_left()) break;
      const Tuning candidate = with(best, change);
      if (candidate != best && wins(candidate, best, rows)) best = candidate;
    }
    if (best == before) break;
  }
  const double pairs_left = seconds_left() / pair_seconds;
  return measure(best, rows, static_cast<int>(std::clamp(pairs_left, 1.0, 1.0 * kTrialPairs)));
}

std::map<int, TuneEntry> Tuner::tune(TuneEffort effort, double stream,
                                     const std::function<void(const std::string&)>& progress) {
  const std::vector<int> batches = batches_of(effort);
  const auto start = Clock::now();
  std::map<int, TuneEntry> entries;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    // Each batch has a share of the time; what one leaves over goes to those after it.
    const double share = kQuickSeconds * static_cast<double>(i + 1) / static_cast<double>(batches.size());
    const auto seconds = effort == TuneEffort::kFull ? std::chrono::duration<double>(kFullSeconds)
                                                     : std::chrono::duration<double>(share);
    const auto deadline = start + std::chrono::duration_cast<Clock::duration>(seconds);
    if (Clock::now() >= deadline) continue;
    progress(fmt::format("tuning for batches of {}", batches[i]));
    TuneEntry entry = search(batches[i], effort, deadline);
    entry.share_of_stream = entry.bytes_per_second / stream;
    entries[batches[i]] = entry;
  }
  return entries;
}

}  // namespace tagalong::tools
