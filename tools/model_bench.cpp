#include "model_bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

#include "base/split_mix.h"
#include "engine/logits_hash.h"
#include "engine/sampler.h"
#include "routing/route_observer.h"

namespace tagalong::tools {

namespace {

std::size_t size(int n) { return static_cast<std::size_t>(n); }

// One case with everything that its steps need.
class StepRunner : private routing::RouteObserver {
 public:
  StepRunner(const models::Model& model, base::ThreadPool& pool, const StepPlan& plan, const StepCase& c)
      : model_(model),
        pool_(pool),
        plan_(plan),
        case_(c),
        kv_(model.info().kv_planes, c.sequences * blocks(), plan.kv_type),
        tables_(size(c.sequences)),
        ids_(size(c.sequences)),
        picks_(size(c.sequences)),
        logits_(size(c.sequences) * size(model.info().vocab)),
        random_(17) {
    workspace_ = model.make_workspace(
        {.rows = c.rows(), .logit_rows = c.sequences, .workers = pool.size(), .policy = plan.policy});
    for (int s = 0; s < c.sequences; ++s) {
      for (int b = 0; b < blocks(); ++b) tables_[size(s)].blocks.push_back(s * blocks() + b);
      ids_[size(s)] = random_id();
    }
    for (int worker = 0; worker < pool.size(); ++worker) samplers_.emplace_back(model.info().vocab);
  }

  int steps() const { return case_.prompt > 0 ? 1 : plan_.steps; }

  // Runs one step; adds its distinct experts to `experts`. Returns seconds.
  double step(double& experts) {
    fill_batch();
    experts_ = 0;
    const auto start = std::chrono::steady_clock::now();
    model_.forward(batch_,
                   {.pool = pool_,
                    .kv = kv_,
                    .policy = plan_.policy,
                    .routing = this,
                    .tuning = plan_.tuning.for_rows(batch_.rows())},
                   *workspace_, logits_.span());
    if (!plan_.random_tokens) pick();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    for (std::size_t s = 0; s < ids_.size(); ++s) ids_[s] = plan_.random_tokens ? random_id() : picks_[s];
    experts += experts_;
    hash_ = hash_ * 31 + engine::hash_logits(logits_.span());
    return time.count();
  }

  std::uint64_t hash() const { return hash_; }

 private:
  int blocks() const {
    return cache::blocks_for(case_.prompt > 0 ? case_.prompt : (plan_.rounds + 1) * plan_.steps);
  }
  std::int32_t random_id() {
    return static_cast<std::int32_t>(random_.next() % static_cast<std::uint64_t>(model_.info().vocab));
  }

  void routed(int, std::span<const routing::RowRole>, const routing::RoutePlan& plan) override {
    experts_ += plan.stats.experts;
  }

  // The likeliest token of each sequence.
  void pick() {
    const std::size_t vocab = size(model_.info().vocab);
    pool_.run(case_.sequences, [&](int s, int worker) {
      const std::span<const float> row = logits_.span().subspan(size(s) * vocab, vocab);
      picks_[size(s)] = samplers_[size(worker)].pick(row, {.temperature = 0}, 0).id;
    });
  }

  void fill_batch() {
    batch_.clear();
    for (const cache::BlockTable& table : tables_) batch_.tables.push_back(&table);
    const auto add = [&](std::int32_t id, int position, int sequence, routing::RowRole role) {
      batch_.ids.push_back(id);
      batch_.positions.push_back(position);
      batch_.sequences.push_back(sequence);
      batch_.roles.push_back(role);
    };
    if (case_.prompt > 0) {
      for (int p = 0; p < case_.prompt; ++p) add(random_id(), p, 0, routing::RowRole::kPrefill);
      batch_.logit_rows.push_back(case_.prompt - 1);
      return;
    }
    for (int s = 0; s < case_.sequences; ++s) {
      batch_.logit_rows.push_back(s);
      add(ids_[size(s)], position_, s, routing::RowRole::kDecode);
    }
    ++position_;
  }

  const models::Model& model_;
  base::ThreadPool& pool_;
  const StepPlan& plan_;
  StepCase case_;
  cache::KvStore kv_;
  std::vector<cache::BlockTable> tables_;
  std::vector<std::int32_t> ids_;      // [sequences] of the next step
  std::vector<std::int32_t> picks_;    // [sequences]
  base::AlignedBuffer<float> logits_;  // [sequences, vocab]
  base::SplitMix64 random_;
  std::unique_ptr<models::Workspace> workspace_;
  std::vector<engine::Sampler> samplers_;
  models::Batch batch_;
  int position_ = 0;
  int experts_ = 0;  // distinct ones of the last step, all layers together
  std::uint64_t hash_ = 0;
};

}  // namespace

std::vector<StepResult> bench_steps(const models::Model& model, base::ThreadPool& pool, const StepPlan& plan,
                                    Ceilings& ceilings, const std::function<void()>& progress) {
  std::vector<std::unique_ptr<StepRunner>> runners;
  for (const StepCase& c : plan.cases) runners.push_back(std::make_unique<StepRunner>(model, pool, plan, c));
  std::vector<std::vector<double>> seconds(runners.size());
  std::vector<double> experts(runners.size(), 0.0);
  for (int round = 0; round <= plan.rounds; ++round) {
    ceilings.sample();
    for (std::size_t i = 0; i < runners.size(); ++i) {
      for (int step = 0; step < runners[i]->steps(); ++step) {
        double distinct = 0;
        const double time = runners[i]->step(distinct);
        if (round == 0) continue;
        seconds[i].push_back(time);
        experts[i] += distinct;
      }
    }
    if (round > 0) progress();
  }

  const models::ModelInfo& info = model.info();
  std::vector<StepResult> results;
  for (std::size_t i = 0; i < runners.size(); ++i) {
    const StepCase& c = plan.cases[i];
    const int rows = c.rows();
    const double per_step = experts[i] / static_cast<double>(seconds[i].size());
    StepResult r;
    r.seconds = median(seconds[i]);
    r.experts = info.moe_layers > 0 ? per_step / info.moe_layers : 0;
    const double missed = 1 - static_cast<double>(info.router.top_k) / info.router.experts;
    r.experts_uniform = info.router.experts * (1 - std::pow(missed, rows));
    r.bytes = static_cast<double>(info.dense_bytes) + per_step * static_cast<double>(info.expert_bytes);
    // The head works for the rows whose logits are wanted only.
    const double products =
        static_cast<double>(info.row_products) * rows + static_cast<double>(info.head_products) * c.sequences;
    r.floor_seconds =
        std::max(r.bytes / ceilings.bytes_per_second(), products / ceilings.products_per_second());
    r.hash = runners[i]->hash();
    results.push_back(r);
  }
  return results;
}

}  // namespace tagalong::tools
