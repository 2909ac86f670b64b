// The hyperparameters of a glm_moe_dsa model, read from config.json and checked.
#pragma once

#include <vector>

#include "checkpoint/config.h"
#include "models/decoder_config.h"
#include "nn/mla.h"

namespace tagalong::models {

struct GlmConfig {
  DecoderConfig decoder;
  nn::MlaConfig mla;
  nn::DsaConfig dsa;
  std::vector<nn::Sparsity> sparsity;  // [layers]
};

// Throws InputError naming the key for anything missing, out of range or not supported.
GlmConfig read_glm_config(const checkpoint::Config& config);

}  // namespace tagalong::models
