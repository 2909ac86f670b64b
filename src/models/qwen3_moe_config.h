// The hyperparameters of a qwen3_moe model, read from config.json and checked.
#pragma once

#include <vector>

#include "checkpoint/config.h"
#include "nn/gqa.h"
#include "routing/router_spec.h"

namespace tagalong::models {

struct Qwen3MoeConfig {
  int vocab = 0;
  int hidden = 0;
  int layers = 0;
  int max_context = 0;
  int intermediate = 0;      // of dense layers; 0 if there are none
  int moe_intermediate = 0;  // of an expert
  float norm_eps = 0;
  double rope_theta = 0;
  bool tied_head = false;  // lm_head is the embedding
  nn::GqaConfig attention;
  routing::RouterSpec router;    // of every MoE layer
  std::vector<bool> sparse_mlp;  // [layers] MoE or dense
};

// Throws InputError naming the key for anything missing, out of range or not supported.
Qwen3MoeConfig read_qwen3_moe_config(const checkpoint::Config& config);

}  // namespace tagalong::models
