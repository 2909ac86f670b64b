#include "engine/teacher.h"

#include <algorithm>

#include "base/check.h"
#include "base/error.h"

namespace tagalong::engine {

namespace {

Teacher::Options complete(Teacher::Options options, const models::ModelInfo& info) {
  CHECK(options.sequences >= 1 && options.chunk >= 1, "{} sequences, chunk {}", options.sequences,
        options.chunk);
  if (options.tokens == 0) options.tokens = info.max_context;
  if (options.tokens < 1 || options.tokens > info.max_context) {
    throw base::input_error("{} tokens asked for, but the context holds 1 to {}", options.tokens,
                            info.max_context);
  }
  options.chunk = std::max(options.chunk, options.sequences);
  return options;
}

std::size_t size(int n) { return static_cast<std::size_t>(n); }

}  // namespace

Teacher::Teacher(const models::Model& model, base::ThreadPool& pool, const Options& options)
    : model_(model),
      pool_(pool),
      options_(complete(options, model.info())),
      kv_(model.info().kv_planes, options_.sequences * cache::blocks_for(options_.tokens), options_.kv_type),
      workspace_(model.make_workspace({.rows = options_.chunk,
                                       .logit_rows = options_.chunk,
                                       .workers = pool.size(),
                                       .policy = options_.policy})),
      tables_(size(options_.sequences)),
      lengths_(tables_.size(), 0),
      routing_log_(model.info(), nullptr),
      logits_(size(options_.chunk) * size(model.info().vocab)) {
  std::int32_t block = 0;
  for (cache::BlockTable& table : tables_) {
    for (int i = 0; i < cache::blocks_for(options_.tokens); ++i) table.blocks.push_back(block++);
  }
}

void Teacher::reset() { std::fill(lengths_.begin(), lengths_.end(), 0); }

void Teacher::add_row(int sequence, std::int32_t id, routing::RowRole role) {
  int& length = lengths_[size(sequence)];
  CHECK(id >= 0 && id < model_.info().vocab && length < options_.tokens, "token {} after {} of {}", id,
        length, options_.tokens);
  batch_.ids.push_back(id);
  batch_.positions.push_back(length++);
  batch_.roles.push_back(role);
  batch_.sequences.push_back(static_cast<std::int32_t>(batch_.tables.size()) - 1);
}

void Teacher::run() {
  const models::StepContext context{
      .pool = pool_, .kv = kv_, .policy = options_.policy, .routing = &routing_log_, .observer = nullptr};
  routing_log_.begin(batch_, step_++);
  const std::size_t wanted = batch_.logit_rows.size() * size(model_.info().vocab);
  model_.forward(batch_, context, *workspace_, logits_.span().first(wanted));
}

void Teacher::prompt(int sequence, std::span<const std::int32_t> ids, const Sink& sink) {
  const std::size_t vocab = size(model_.info().vocab);
  while (!ids.empty()) {
    const std::size_t rows = std::min(ids.size(), size(options_.chunk));
    const int first = lengths_[size(sequence)];
    batch_.clear();
    batch_.tables.push_back(&tables_[size(sequence)]);
    for (std::size_t row = 0; row < rows; ++row) {
      if (sink) batch_.logit_rows.push_back(batch_.rows());
      add_row(sequence, ids[row], routing::RowRole::kPrefill);
    }
    run();
    for (std::size_t row = 0; row < batch_.logit_rows.size(); ++row) {
      sink(first + static_cast<int>(row), logits_.span().subspan(row * vocab, vocab));
    }
    ids = ids.subspan(rows);
  }
}

std::span<const float> Teacher::decode(std::span<const std::int32_t> ids) {
  CHECK(ids.size() == tables_.size(), "{} tokens for {} sequences", ids.size(), tables_.size());
  batch_.clear();
  for (int sequence = 0; sequence < options_.sequences; ++sequence) {
    batch_.tables.push_back(&tables_[size(sequence)]);
    batch_.logit_rows.push_back(batch_.rows());
    add_row(sequence, ids[size(sequence)], routing::RowRole::kDecode);
  }
  run();
  return logits_.span().first(ids.size() * size(model_.info().vocab));
}

}  // namespace tagalong::engine
