// A MoE layer of a given shape with random NVFP4 weights: for measuring speed where no checkpoint of that
// size is at hand. Codes and scales are uniform, so the weights have mean zero and routing is near uniform.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "nn/moe.h"

namespace tagalong::tools {

struct LayerShape {
  int experts = 0;
  int top_k = 0;
  int hidden = 0;
  int intermediate = 0;
  int shared = 0;  // shared experts of the same width, as one network
};

// The shape of a MoE layer of "qwen3-30b-a3b", "glm-5", ... Throws InputError listing the names.
LayerShape shape_like(std::string_view name);

// Packs on the pool's threads. Extents must be multiples of 16.
nn::Moe make_synthetic_layer(const LayerShape& shape, base::ThreadPool& pool, std::uint64_t seed,
                             base::Pages pages = base::Pages::kHuge);

// Bytes of one routed expert as packed.
std::size_t expert_bytes(const nn::Moe& layer);

}  // namespace tagalong::tools
