// The hyperparameters of a glm_moe_dsa model, read from config.json and checked.
#pragma once

#include <vector>

#include "checkpoint/config.h"
#include "nn/mla.h"
#include "routing/router_spec.h"

namespace tagalong::models {

struct GlmConfig {
  int vocab = 0;
  int hidden = 0;
  int layers = 0;
  int max_context = 0;
  int intermediate = 0;         // of dense layers
  int moe_intermediate = 0;     // of a routed expert
  int shared_intermediate = 0;  // of all shared experts together
  float norm_eps = 0;
  double rope_theta = 0;
  bool tied_head = false;  // lm_head is the embedding
  nn::MlaConfig mla;
  nn::DsaConfig dsa;
  routing::RouterSpec router;          // of every MoE layer, with a bias of zeros
  std::vector<bool> sparse_mlp;        // [layers] MoE or dense
  std::vector<nn::Sparsity> sparsity;  // [layers]
};

// Throws InputError naming the key for anything missing, out of range or not supported.
GlmConfig read_glm_config(const checkpoint::Config& config);

}  // namespace tagalong::models
