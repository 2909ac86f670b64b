// Times attention of a model's shape over a made-up cache: the tuner's subject beside the passes over
// experts.
//
// Rows are the last of sequences of unequal lengths. Each pass reads other parts of a cache that is larger
// than the machine's caches, as a layer of a model does.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/split_mix.h"
#include "base/thread_pool.h"
#include "cache/kv_store.h"
#include "kernels/kernels.h"
#include "nn/parted_attention.h"
#include "tuner.h"

namespace tagalong::tools {

class AttentionTimer : public TuneSubject {
 public:
  // positions: that a row attends to at most. max_rows: the largest batch that will be asked for. Kernels and
  // pool must outlive the timer.
  AttentionTimer(const nn::AttentionShape& shape, int positions, const kernels::Kernels& kernels,
                 base::ThreadPool& pool, int max_rows);

  void draw(int rows) override;
  double time(const kernels::Tuning& tuning) override;
  double bytes() const override { return bytes_; }  // of keys and values

 private:
  nn::AttentionShape shape_;
  const kernels::Kernels& kernels_;
  base::ThreadPool& pool_;
  int longest_;  // positions
  int blocks_;   // of the cache
  cache::KvStore kv_;
  nn::AttentionWorkspace workspace_;
  std::array<std::vector<float>, 2> queries_;
  std::vector<float> out_;
  base::SplitMix64 random_{1};
  // Of the present draw, by row, each a sequence of its own.
  std::vector<std::int32_t> positions_;
  std::vector<std::int32_t> sequences_;
  std::vector<cache::BlockTable> tables_;
  std::vector<const cache::BlockTable*> views_;
  int next_block_ = 0;
  double bytes_ = 0;
};

}  // namespace tagalong::tools
