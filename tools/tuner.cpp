#include "tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <random>

#include "base/check.h"
#include "ceilings.h"

namespace tagalong::tools {

namespace {

using kernels::Tuning;

constexpr int kTrialPairs = 7;
constexpr int kConfirmPairs = 15;
constexpr int kQuickBatches[] = {1, 4, 16, 64};
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
  vary(&Tuning::prefetch, {0, 4096});
  vary(&Tuning::activate_tiles, {2, 4});
  all.push_back({nullptr, 0});
  vary(&Tuning::row_tile, {6});
  if (effort == TuneEffort::kQuick) return all;
  vary(&Tuning::project_tiles, {1, 3, 4, 6, 16, 32});
  vary(&Tuning::prefetch, {512, 1024, 2048, 8192, 16384});
  vary(&Tuning::activate_tiles, {1, 3, 6, 8, 16});
  vary(&Tuning::row_tile, {1, 2, 3, 4, 5, 7, 8});
  if (threads > 1) {
    vary(&Tuning::activate_workers, {0, threads / 2, threads - 1});
    vary(&Tuning::project_workers, {0, threads / 2, threads - 1});
  }
  return all;
}

}  // namespace

std::string tune_shape(const nn::Moe& layer, int threads) {
  const nn::GatedWeights& expert = layer.experts.front();
  std::string format(tensor::format_name(expert.gate_up.format()));
  for (char& c : format) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const int shared = layer.spec.fused_shared_experts > 0 ? layer.experts.back().gate_up.outputs() : 0;
  return fmt::format("{} {}x{} {}x{} shared {} threads {}", format, layer.spec.experts, layer.spec.top_k,
                     expert.gate_up.inputs(), expert.gate_up.outputs(), shared, threads);
}

Tuner::Tuner(std::span<const nn::Moe* const> layers, const kernels::Kernels& kernels, base::ThreadPool& pool,
             int max_rows)
    : layers_(layers),
      kernels_(kernels),
      pool_(pool),
      hidden_(layers.front()->experts.front().gate_up.inputs()),
      routed_(layers.front()->spec.experts),
      entries_(static_cast<std::size_t>(routed_)) {
  CHECK(max_rows >= 1, "{} rows", max_rows);
  int intermediate = 0;
  for (const nn::GatedWeights& expert : layers.front()->experts) {
    intermediate = std::max(intermediate, expert.gate_up.outputs());
  }
  const routing::RouterSpec& spec = layers.front()->spec;
  gated_ = nn::GatedWorkspace(max_rows, hidden_, max_rows * (spec.top_k + spec.fused_shared_experts),
                              intermediate, spec.plan_experts());
  x_.resize(static_cast<std::size_t>(max_rows) * static_cast<std::size_t>(hidden_));
  out_.resize(x_.size());
  std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  for (float& v : x_) v = normal(engine);
}

void Tuner::draw(int rows) {
  for (auto& entries : entries_) entries.clear();
  all_rows_.clear();
  const int k = layers_.front()->spec.top_k;
  std::vector<int> experts(static_cast<std::size_t>(routed_));
  for (int e = 0; e < routed_; ++e) experts[static_cast<std::size_t>(e)] = e;
  for (std::int32_t row = 0; row < rows; ++row) {
    all_rows_.push_back({row, 1.0F});
    for (int i = 0; i < k; ++i) {
      const auto at = static_cast<std::size_t>(i) +
                      static_cast<std::size_t>(random_.next() % static_cast<std::uint64_t>(routed_ - i));
      std::swap(experts[static_cast<std::size_t>(i)], experts[at]);
      entries_[static_cast<std::size_t>(experts[static_cast<std::size_t>(i)])].push_back(
          {row, 1.0F / static_cast<float>(k)});
    }
  }
}

double Tuner::time(const Tuning& tuning, int rows) {
  ++turn_;
  const nn::Moe& layer = *layers_[turn_ % layers_.size()];
  // Half the experts further each time: far from what the last calls on this layer have left in the caches.
  const std::size_t shift = turn_ / layers_.size() * static_cast<std::size_t>(routed_ / 2 + 1);
  groups_.clear();
  bytes_ = 0;
  for (std::size_t e = 0; e < static_cast<std::size_t>(routed_); ++e) {
    const auto& entries = entries_[(e + shift) % static_cast<std::size_t>(routed_)];
    if (!entries.empty()) groups_.push_back({&layer.experts[e], entries});
  }
  if (layer.spec.fused_shared_experts > 0) groups_.push_back({&layer.experts.back(), all_rows_});
  for (const nn::ExpertGroup& group : groups_) bytes_ += static_cast<double>(group.weights->bytes());
  const auto start = Clock::now();
  nn::apply_gated_experts({kernels_, pool_, tuning}, groups_, x_.data(), rows, hidden_, gated_, out_.data());
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

double Tuner::ratio(const Tuning& a, const Tuning& b, int rows, int pairs) {
  std::vector<double> ratios;
  for (int i = 0; i < pairs; ++i) {
    draw(rows);
    const double first = time(a, rows);
    ratios.push_back(time(b, rows) / first);
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
    draw(rows);
    defaults.push_back(time({}, rows));
    times.push_back(time(tuning, rows));
    rates.push_back(bytes_ / times.back() * 1e6);
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
  draw(rows);
  time({}, rows);  // wakes the threads and touches the pages
  Tuning best;
  const double pair_seconds = 2e-6 * time(best, rows);
  const auto seconds_left = [deadline] {
    return std::chrono::duration<double>(deadline - Clock::now()).count();
  };
  const int passes = effort == TuneEffort::kFull ? kFullPasses : 1;
  for (int pass = 0; pass < passes; ++pass) {
    const Tuning before = best;
    for (const Change& change : changes(effort, pool_.size())) {
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
  const int max_rows = gated_.input.rows();
  std::vector<int> batches;
  if (effort == TuneEffort::kQuick) {
    for (const int rows : kQuickBatches) batches.push_back(rows);
  } else {
    for (int i = 0; i < kernels::TuningTable::kBuckets; ++i)
      batches.push_back(kernels::TuningTable::rows_of(i));
  }
  std::erase_if(batches, [max_rows](int rows) { return rows > max_rows; });
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
